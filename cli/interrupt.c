/* SPDX-License-Identifier: Apache-2.0 */
/* Signals that ask to stop; see interrupt.h. State is global because signals are. */
#include "cli/interrupt.h"

#include <errno.h>
#include <signal.h>
#include <stddef.h>
#include <unistd.h>

#include "src/backend/machine.h"
#include "src/backend/sim/sim.h"
#include "src/base/util.h"

static volatile sig_atomic_t pending;
static const char *volatile partial[INTERRUPT_PARTIALS];

static void handle(int number)
{
	static const char text[] = "weir: interrupted twice, ended at once\n";

	if (!pending) {
		pending = number;
		return;
	}
	for (unsigned int i = 0; i < INTERRUPT_PARTIALS; i++) {
		const char *path = partial[i];

		if (path)
			unlink(path);
	}
	/* Nothing can be done about a message that does not get out. */
	(void)!write(STDERR_FILENO, text, sizeof(text) - 1);
	_exit(128 + number);
}

int interrupt_init(void)
{
	static const int stops[] = {SIGINT, SIGTERM, SIGHUP};
	struct sigaction action = {.sa_handler = handle}, old;

	/* One handler at a time, so that the second signal comes second. */
	sigfillset(&action.sa_mask);
	action.sa_flags = SA_RESTART;
	for (size_t i = 0; i < ARRAY_LEN(stops); i++) {
		if (sigaction(stops[i], NULL, &old))
			return -errno;
		/* Whoever started us with the signal ignored (nohup) means it. */
		if (old.sa_handler == SIG_IGN)
			continue;
		if (sigaction(stops[i], &action, NULL))
			return -errno;
	}
	action.sa_handler = SIG_IGN;
	return sigaction(SIGPIPE, &action, NULL) ? -errno : 0;
}

int interrupt_pending(void)
{
	return pending;
}

void interrupt_look_in(const struct weir_machine *machine)
{
	sim_set_stop(machine_backend(machine), interrupt_pending);
}

void interrupt_set_partial(unsigned int place, const char *path)
{
	partial[place] = path;
}
