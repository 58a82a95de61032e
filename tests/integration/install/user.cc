/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A program of a stranger's, in C++: structs are named without `struct`, which a function of the same
 * name would hide, and launches run. Prints the library's version.
 *
 *     user MACHINE
 */
#include <cstdint>
#include <cstdio>

#include <weir/machine_file.h>
#include <weir/paged.h>
#include <weir/trace.h>
#include <weir/weir.h>

namespace
{
struct fill_args {
	std::uint32_t *to;
	std::uint32_t value;
};

void fill(const void *data)
{
	const fill_args *args = static_cast<const fill_args *>(data);

	*args->to = args->value;
}

/* Every struct of the headers that a program fills in or reads. */
void name_structs()
{
	weir_memory_desc memory{};
	weir_device_desc device{};
	weir_link_desc link{};
	weir_vmm_desc vmm{};
	weir_uvm_desc uvm{};
	weir_kernel_rate rate{};
	weir_pool_config pool_config{};
	weir_pool_stats pool_stats{};
	weir_mem_use mem_use{};
	weir_mem_params mem_params{};
	weir_mem_info mem_info{};
	weir_paged_config paged_config{};
	weir_paged_range_config range_config{};
	weir_paged_range_stats range_stats{};
	weir_paged_stats paged_stats{};
	weir_paged_view view{};
	weir_machine_note note{};

	(void)memory, (void)device, (void)link, (void)vmm, (void)uvm, (void)rate;
	(void)pool_config, (void)pool_stats, (void)mem_use, (void)mem_params, (void)mem_info;
	(void)paged_config, (void)range_config, (void)range_stats, (void)paged_stats, (void)view;
	(void)note;
}

bool run(weir_machine *machine)
{
	weir_space_config config{};
	weir_space_stats stats{};
	weir_kernel kernel{"fill", fill, nullptr};
	weir_launch launch{};
	weir_use use{};
	weir_stream *stream;
	weir_space *space;
	std::uint32_t found = 0;
	void *addr;

	config.budget_bytes[0] = config.budget_bytes[1] = 64u << 20; // the host and the GPU
	config.mode = WEIR_PLANNED;
	if (weir_stream_create(machine, 0, &stream) ||
	    weir_space_create(machine, &config, &space) || weir_alloc(space, 4, stream, &addr))
		return false;
	fill_args args{static_cast<std::uint32_t *>(addr), 42};
	use.addr = addr;
	use.bytes = 4;
	use.kind = WEIR_OVERWRITE;
	launch.kernel = &kernel;
	launch.args = &args;
	launch.args_bytes = sizeof(args);
	launch.uses = &use;
	launch.nr_uses = 1;
	int err = weir_begin(space, stream, &use, 1);
	if (!err) {
		err = weir_stream_launch(stream, &launch);
		err = weir_end(space, stream) ? 1 : err;
	}
	if (err || weir_read(space, &found, addr, sizeof(found)))
		return false;
	weir_space_query(space, &stats);
	weir_space_destroy(space);
	weir_stream_destroy(stream);
	return found == 42 && stats.nr_brackets == 1;
}
} // namespace

int main(int argc, char **argv)
{
	weir_machine_desc desc{};
	weir_machine *machine;
	char why[512] = "";

	name_structs();
	if (argc != 2 || weir_machine_file_read(argv[1], &desc, why, sizeof(why))) {
		std::fprintf(stderr, "user: %s\n", why);
		return 1;
	}
	if (weir_machine_simulate(&desc, WEIR_DATA_REAL, &machine) || !run(machine))
		return 2;
	if (weir_machine_describe(machine)->nr_devices != desc.nr_devices)
		return 3;
	weir_machine_close(machine);
	return std::puts(weir_version()) < 0;
}
