#include "base/core_speed.h"
#include "base/core_kind.h"
#include "base/isa.h"
#include "inlay/check.h"
#include "inlay/extensions.h"
#include "inlay/note.h"
#include "kit/memory_speed.h"
#include <pthread.h>
#include <stddef.h>

enum { MEMBERS = (sizeof(inlay_speed) - offsetof(inlay_speed, flops_baseline)) / sizeof(double) };
static const double REFERENCE_FLOPS = 80; /* of the reference core, with registers of 16 bytes */

static inlay_speed in_use;
static memory_speed memory_in_use;
static pthread_once_t once = PTHREAD_ONCE_INIT;
static _Thread_local const inlay_speed *proposed; /* for decide(), which runs on the thread that calls pthread_once() */

static void decide(void)
{
    double *member = &in_use.flops_baseline;

    core_kind_speed(core_kind_in_use(), isa_in_use(), &in_use);
    core_kind_memory(core_kind_in_use(), &memory_in_use);
    if (proposed == NULL || core_kind_is_assumed())
        return;
    for (size_t i = 0; i < MEMBERS; i++) /* a profile may lack members */
        member[i] = (&proposed->flops_baseline)[i] > 0 ? (&proposed->flops_baseline)[i] : member[i];
}

void core_speed_use(const inlay_speed *known)
{
    proposed = known;
    (void)pthread_once(&once, decide);
    proposed = NULL;
}

const inlay_speed *core_speed(void)
{
    core_speed_use(NULL);
    return &in_use;
}

const memory_speed *core_memory(void)
{
    core_speed_use(NULL);
    return &memory_in_use;
}

double core_flops(void)
{
    const inlay_speed *speed = core_speed();

    return speed->flops_v4 > 0 ? speed->flops_v4 : speed->flops_v3 > 0 ? speed->flops_v3 : speed->flops_baseline;
}

double core_time_factor(void)
{
    const inlay_speed *speed = core_speed();

    return REFERENCE_FLOPS * (speed->flops_v4 > 0 ? 4 : speed->flops_v3 > 0 ? 2 : 1) / core_flops();
}
