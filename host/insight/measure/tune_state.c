/* tune_state.c - what all steps of a tuning ask about it. */
#include "base/clock.h"
#include "measure/tune.h"
#include <string.h>

static const double RUNS_SHARE = 0.3; /* of the progress: the comparison of whole runs */

static bool is_cancelled(struct tuning *tuning)
{
    double fraction = tuning->kernel_count > 0 ? (double)tuning->kernel_index / tuning->kernel_count : 0;

    fraction *= 1 - RUNS_SHARE;
    if (tuning->runs.count > 0)
        fraction += RUNS_SHARE * tuning->runs.index / tuning->runs.count;
    if (!tuning->stopped && tuning->options.progress != NULL)
        tuning->stopped = tuning->options.progress(tuning->options.progress_user, fraction, tuning->activity) != 0;
    return tuning->stopped;
}

bool tune_stop(void *ctx)
{
    struct tuning *tuning = ctx;

    return is_cancelled(tuning) || (double)clock_ns() * 1e-9 > tuning->end;
}

bool tune_stop_kernel(void *ctx)
{
    struct tuning *tuning = ctx;

    return tuning->unlimited ? is_cancelled(tuning) : tune_stop(tuning);
}

cost_sizes tune_fresh_sizes(const struct tuning *tuning)
{
    return (cost_sizes){ .assumed = tuning->sizes.assumed,
                         .assumed_count = tuning->sizes.assumed_count,
                         .inputs = tuning->sizes.inputs,
                         .input_count = tuning->sizes.input_count };
}

bool tune_equal_regions(const struct program *a, const struct program *b)
{
    const struct partition *partition = &a->parts, *other = &b->parts;

    if (partition->region_count != other->region_count || a->body_count != b->body_count)
        return false;
    for (uint32_t i = 0; i < partition->region_count; i++) {
        const partition_region *region = &partition->regions[i], *other_region = &other->regions[i];

        if (region->provider != other_region->provider || region->node_count != other_region->node_count ||
            memcmp(region->nodes, other_region->nodes, region->node_count * sizeof *region->nodes) != 0)
            return false;
    }
    for (uint32_t i = 0; i < a->body_count; i++)
        if (!tune_equal_regions(a->bodies[i], b->bodies[i]))
            return false;
    return true;
}
