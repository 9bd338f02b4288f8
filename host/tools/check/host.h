/* check/host.h - the host table that the plugins under check receive: that of the host, with loops that the checker can
 * cancel. */
#ifndef CHECK_HOST_H
#define CHECK_HOST_H
#include <stdbool.h>
#include <stdint.h>

struct inlay_host;

const struct inlay_host *check_host(void);
/* From now on, every parallel_for of a run sets *word to 1 when it begins: the cancellation of a run during its loops.
 * NULL: no longer. */
void check_host_cancel_in_loops(uint32_t *word);
/* Number of messages that plugins have logged, without those for debugging. */
uint64_t check_host_messages(void);
/* From now on, loops of a run execute on the calling thread, range by range from the last to the first. The ranges have
 * the highest worker numbers below the max_threads that specialize got. */
void check_host_scatter_loops(bool on);
#endif
