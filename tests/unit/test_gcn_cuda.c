/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Where the CUDA kernels come from: libraries that are missing, of another version, or not such
 * libraries at all; and one that is loaded and called. They are built here, with CC, from a few
 * lines that record what they are called with: no CUDA is needed.
 *
 * What is loaded stays loaded, so the tests build on each other. Labels: threads
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "weir/weir.h"
#include "workloads/gcn/cuda.h"

#define VARIABLE "WEIR_CUDA_KERNELS"
#define FILE_NAME "libweir-gcn-cuda.so"
#define NR_THREADS 4

/* What the library last got. Its own declaration stands in its source. */
struct fake_call {
	const char *name;
	void *stream;
	const void *args;
	int calls, ret;
};

/* LACKS_ADAM leaves a function out, OFF is added to the version. */
static const char fake_source[] =
	"#include \"workloads/gcn/cuda/plugin.h\"\n"
	"struct fake_call { const char *name; void *stream; const void *args; int calls, ret; };\n"
	"extern GCN_CUDA_EXPORT struct fake_call fake_call;\n"
	"struct fake_call fake_call;\n"
	"static int record(const char *name, void *stream, const void *args)\n"
	"{\n"
	"	fake_call.name = name;\n"
	"	fake_call.stream = stream;\n"
	"	fake_call.args = args;\n"
	"	fake_call.calls++;\n"
	"	return fake_call.ret;\n"
	"}\n"
	"#ifdef LACKS_ADAM\n"
	"#define gcn_cuda_adam another\n"
	"int another(void *stream, const void *args);\n"
	"#endif\n"
	"#define DEFINE(name) int gcn_cuda_##name(void *stream, const void *args) \\\n"
	"	{ return record(#name, stream, args); }\n"
	"GCN_CUDA_KERNELS(DEFINE)\n"
	"uint64_t gcn_cuda_abi(void) { return gcn_cuda_abi_here() + OFF; }\n"
	"const char *gcn_cuda_error(void) { return \"the fake is out of order\"; }\n"
	"int gcn_cuda_stream_add(void *stream) { return record(\"add\", stream, 0); }\n"
	"void gcn_cuda_stream_del(void *stream) { record(\"del\", stream, 0); }\n";

static char folder[64];

/* ------------------------------------------------------------------ helpers */

static char logged[1024];
static int nr_logged;

static void log_keep(void *arg, enum weir_log_level level, const char *message)
{
	(void)arg;
	assert_int_equal(level, WEIR_LOG_ERROR);
	snprintf(logged, sizeof(logged), "%s", message);
	nr_logged++;
}

static void shell(const char *format, ...)
{
	char command[4096];
	va_list args;

	va_start(args, format);
	vsnprintf(command, sizeof(command), format, args);
	va_end(args);
	if (system(command) != 0) /* NOLINT(cert-env33-c): our own words */
		fail_msg("failed: %s", command);
}

static const char *env(const char *name, const char *otherwise)
{
	const char *value = getenv(name);

	return value ? value : otherwise;
}

/* Build FOLDER/name from the source with these definitions, and name it in the variable. */
static void library_build(const char *name, const char *definitions)
{
	const char *source = env("SOURCE_DIR", ".");
	char path[128];

	shell("%s -std=c11 -shared -fPIC -fvisibility=hidden %s -I'%s' -I'%s/include' -o %s/%s "
	      "%s/fake.c",
	      env("CC", "cc"), definitions, source, source, folder, name, folder);
	snprintf(path, sizeof(path), "%s/%s", folder, name);
	assert_int_equal(setenv(VARIABLE, path, 1), 0);
}

/* Loading fails with one line that has these words. */
static void assert_refused(int status, const char *word, const char *other)
{
	nr_logged = 0;
	assert_int_equal(gcn_cuda_load(), status);
	assert_int_equal(nr_logged, 1);
	assert_non_null(strstr(logged, word));
	assert_non_null(strstr(logged, other));
	assert_non_null(strstr(logged, "make cuda"));
	assert_null(strchr(logged, '\n'));
}

static int folder_create(void **state)
{
	char path[128];
	FILE *f;

	(void)state;
	snprintf(folder, sizeof(folder), "/tmp/weir-test-gcn-cuda-XXXXXX");
	if (!mkdtemp(folder))
		return -1;
	snprintf(path, sizeof(path), "%s/fake.c", folder);
	f = fopen(path, "w");
	if (!f)
		return -1;
	fputs(fake_source, f);
	weir_log_set(log_keep, NULL);
	return fclose(f);
}

static int folder_destroy(void **state)
{
	(void)state;
	weir_log_set(NULL, NULL);
	shell("rm -rf %s", folder);
	return 0;
}

/* ------------------------------------------------------------------ nothing is loaded */

static void test_not_loaded(void **state)
{
	struct gcn_zero_args args = {0};

	(void)state;
	nr_logged = 0;
	assert_int_equal(gcn_cuda_run_zero(NULL, &args), -ENOSYS);
	assert_int_equal(gcn_cuda_prepare(NULL), -ENOSYS);
	assert_int_equal(nr_logged, 2);
	gcn_cuda_forget(NULL);
}

static void test_missing(void **state)
{
	(void)state;
	unsetenv(VARIABLE);
	assert_refused(-ENOENT, FILE_NAME, VARIABLE);
	setenv(VARIABLE, "", 1);
	assert_refused(-ENOENT, FILE_NAME, VARIABLE);
	/* A file that is named is the only one that is looked for. */
	setenv(VARIABLE, "/nowhere/kernels.so", 1);
	assert_refused(-ENOENT, "/nowhere/kernels.so", VARIABLE);
}

static void test_not_a_library(void **state)
{
	char path[128];

	(void)state;
	snprintf(path, sizeof(path), "%s/fake.c", folder);
	setenv(VARIABLE, path, 1);
	assert_refused(-ENOENT, path, VARIABLE);
}

static void test_other_version(void **state)
{
	(void)state;
	library_build("other.so", "-DOFF=1");
	assert_refused(-ELIBBAD, "other.so", "version");
}

static void test_lacks_function(void **state)
{
	(void)state;
	library_build("less.so", "-DOFF=0 -DLACKS_ADAM");
	assert_refused(-ELIBBAD, "less.so", "gcn_cuda_adam");
}

/* Run a copy of this program in bin/, with the library in a folder beside, and see it loaded. */
static void found_in(const char *place)
{
	char command[256];

	library_build("fake.so", "-DOFF=0");
	unsetenv(VARIABLE);
	shell("mkdir -p %s/bin %s/%s && cp /proc/%d/exe %s/bin/program && mv %s/fake.so %s/%s/%s",
	      folder, folder, place, (int)getpid(), folder, folder, folder, place, FILE_NAME);
	snprintf(command, sizeof(command), "%s/bin/program --load", folder);
	shell("%s", command);
	shell("rm %s/%s/%s", folder, place, FILE_NAME);
	assert_int_not_equal(system(command), 0); /* NOLINT(cert-env33-c): our own words */
}

static void test_found_beside_program(void **state)
{
	(void)state;
	found_in("bin");
}

static void test_found_in_lib(void **state)
{
	(void)state;
	found_in("lib");
}

/* ------------------------------------------------------------------ one is loaded */

static void *load(void *arg)
{
	*(int *)arg = gcn_cuda_load();
	return NULL;
}

static void test_load_by_threads(void **state)
{
	pthread_t thread[NR_THREADS];
	int ret[NR_THREADS];

	(void)state;
	library_build("fake.so", "-DOFF=0");
	nr_logged = 0;
	for (int i = 0; i < NR_THREADS; i++)
		assert_int_equal(pthread_create(&thread[i], NULL, load, &ret[i]), 0);
	for (int i = 0; i < NR_THREADS; i++) {
		pthread_join(thread[i], NULL);
		assert_int_equal(ret[i], 0);
	}
	assert_int_equal(nr_logged, 0);
	/* It is loaded: where others could be found no longer matters. */
	setenv(VARIABLE, "/nowhere/kernels.so", 1);
	assert_int_equal(gcn_cuda_load(), 0);
}

static struct fake_call *fake(void)
{
	char path[128];
	void *library, *call;

	snprintf(path, sizeof(path), "%s/fake.so", folder);
	library = dlopen(path, RTLD_NOW | RTLD_NOLOAD);
	assert_non_null(library);
	call = dlsym(library, "fake_call");
	assert_non_null(call);
	dlclose(library); /* the loader keeps it */
	return call;
}

static void assert_called(const char *name, void *stream, const void *args)
{
	assert_int_equal(fake()->calls, 1);
	assert_string_equal(fake()->name, name);
	assert_ptr_equal(fake()->stream, stream);
	assert_ptr_equal(fake()->args, args);
	fake()->calls = 0;
}

static void test_each_kernel(void **state)
{
	char stream[3], args;

	(void)state;
	fake()->calls = 0;
	nr_logged = 0;
#define CALL(name)                                                   \
	assert_int_equal(gcn_cuda_run_##name(&stream[1], &args), 0); \
	assert_called(#name, &stream[1], &args);
	GCN_CUDA_KERNELS(CALL)
#undef CALL
	assert_int_equal(gcn_cuda_prepare(&stream[2]), 0);
	assert_called("add", &stream[2], NULL);
	gcn_cuda_forget(&stream[2]);
	assert_called("del", &stream[2], NULL);
	assert_int_equal(nr_logged, 0);
}

static void test_error_of_a_kernel(void **state)
{
	(void)state;
	nr_logged = 0;
	fake()->ret = -EIO;
	assert_int_equal(gcn_cuda_run_select(NULL, NULL), -EIO);
	assert_non_null(strstr(logged, "the fake is out of order"));
	assert_int_equal(gcn_cuda_prepare(NULL), -EIO);
	assert_int_equal(nr_logged, 2);
	fake()->ret = 0;
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_not_loaded),     cmocka_unit_test(test_missing),
		cmocka_unit_test(test_not_a_library),  cmocka_unit_test(test_other_version),
		cmocka_unit_test(test_lacks_function), cmocka_unit_test(test_found_beside_program),
		cmocka_unit_test(test_found_in_lib),   cmocka_unit_test(test_load_by_threads),
		cmocka_unit_test(test_each_kernel),    cmocka_unit_test(test_error_of_a_kernel),
	};

	if (argc > 1 && strcmp(argv[1], "--load") == 0)
		return gcn_cuda_load() ? EXIT_FAILURE : EXIT_SUCCESS;
	return cmocka_run_group_tests(tests, folder_create, folder_destroy);
}
