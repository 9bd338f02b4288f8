/* Timelines are stored in slots that are reused but never freed. The number of a timeline is (generation, slot), so a
 * stale number finds a slot with another generation and is ignored. */
#include "threads/fence.h"
#include "base/clock.h"
#include "base/memory.h"
#include "threads/fork.h"
#include "threads/run.h"
#include "base/boundary.h"
#include "inlay/check.h"
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

struct timeline {
    pthread_mutex_t mutex;
    pthread_cond_t moved; /* signalled when `reached` or `status` changes */
    uint32_t generation;  /* even: free, odd: in use */
    inlay_status status;  /* INLAY_OK, or why values above `reached` will never be reached */
    uint64_t reached;
    inlay_diag why;
    inlay_fence_notice *notices; /* pending notices, linked through host_use[0] */
};

enum { BLOCK_SLOTS = 64, MAX_BLOCKS = 4096 };
static struct timeline *blocks[MAX_BLOCKS]; /* atomic pointers, set once */
static uint32_t *free_slots;                /* stack of slot indexes */
static uint32_t free_count, slot_count;
static pthread_mutex_t table_mutex = PTHREAD_MUTEX_INITIALIZER;

static __attribute__((constructor)) void guard_table(void)
{
    fork_guard(&table_mutex);
}

static struct timeline *slot_at(uint32_t slot)
{
    struct timeline *block =
        slot / BLOCK_SLOTS < MAX_BLOCKS ? __atomic_load_n(&blocks[slot / BLOCK_SLOTS], __ATOMIC_ACQUIRE) : NULL;
    return block != NULL ? &block[slot % BLOCK_SLOTS] : NULL;
}

/* Locks the slot of a timeline. NULL: the timeline was destroyed or never existed. */
static struct timeline *lock_timeline(uint64_t id)
{
    struct timeline *timeline = id != 0 ? slot_at((uint32_t)id - 1) : NULL;

    if (timeline == NULL)
        return NULL;
    (void)pthread_mutex_lock(&timeline->mutex);
    if (timeline->generation == (uint32_t)(id >> 32))
        return timeline;
    (void)pthread_mutex_unlock(&timeline->mutex);
    return NULL;
}

/* Adds a block of free slots; table_mutex is held. */
static bool add_block(void)
{
    uint32_t block_index = slot_count / BLOCK_SLOTS;
    pthread_condattr_t attr;
    struct timeline *block;

    INLAY_CHECK(free_count == 0 && slot_count % BLOCK_SLOTS == 0);
    if (block_index >= MAX_BLOCKS)
        return false;
    if (!list_reserve(&free_slots, slot_count, BLOCK_SLOTS, sizeof *free_slots))
        return false;
    block = calloc(BLOCK_SLOTS, sizeof *block);
    if (block == NULL)
        return false;
    (void)pthread_condattr_init(&attr);
    (void)pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
    for (uint32_t i = 0; i < BLOCK_SLOTS; i++) {
        (void)pthread_mutex_init(&block[i].mutex, NULL);
        (void)pthread_cond_init(&block[i].moved, &attr);
        free_slots[free_count++] = slot_count + BLOCK_SLOTS - 1 - i;
    }
    (void)pthread_condattr_destroy(&attr);
    slot_count += BLOCK_SLOTS;
    __atomic_store_n(&blocks[block_index], block, __ATOMIC_RELEASE);
    return true;
}

inlay_status timeline_create(uint64_t *out_timeline, inlay_diag *diag)
{
    uint32_t slot = INLAY_NONE;
    struct timeline *timeline;

    *out_timeline = 0;
    (void)pthread_mutex_lock(&table_mutex);
    if (free_count > 0 || add_block())
        slot = free_slots[--free_count];
    (void)pthread_mutex_unlock(&table_mutex);
    if (slot == INLAY_NONE)
        return no_memory(diag, "for a timeline");
    timeline = slot_at(slot);
    (void)pthread_mutex_lock(&timeline->mutex);
    timeline->generation++;
    INLAY_CHECK((timeline->generation & 1) == 1 && timeline->notices == NULL);
    timeline->status = INLAY_OK;
    timeline->reached = 0;
    *out_timeline = (uint64_t)timeline->generation << 32 | (slot + 1);
    (void)pthread_mutex_unlock(&timeline->mutex);
    return INLAY_OK;
}

static inlay_fence_notice *next_notice(const inlay_fence_notice *notice)
{
    return (inlay_fence_notice *)(uintptr_t)notice->host_use[0];
}

/* Removes from the timeline's list the notices that are due (all if the timeline ends), and returns them. The timeline
 * is locked. */
static inlay_fence_notice *take_due(struct timeline *timeline, bool ends)
{
    inlay_fence_notice *due = NULL, *kept = NULL;

    for (inlay_fence_notice *notice = timeline->notices, *next; notice != NULL; notice = next) {
        const bool is_due = ends || timeline->status != INLAY_OK || notice->fence.value <= timeline->reached;

        next = next_notice(notice);
        notice->host_use[0] = (uintptr_t)(is_due ? due : kept);
        notice->host_use[1] = is_due && notice->fence.value > timeline->reached; /* 1: it will never be reached */
        *(is_due ? &due : &kept) = notice;
    }
    timeline->notices = kept;
    return due;
}

/* Calls the notices. No lock is held, because a notice may signal a fence. */
static void call_notices(inlay_fence_notice *due, inlay_status status, const inlay_diag *why)
{
    while (due != NULL) {
        inlay_fence_notice *next = next_notice(due);
        const bool failed = due->host_use[1] != 0;

        due->reached(due->user, failed ? status : INLAY_OK, failed ? why : NULL);
        due = next;
    }
}

void fence_notify(inlay_fence_notice *notice)
{
    struct timeline *timeline = lock_timeline(notice->fence.timeline);
    inlay_status status = INLAY_OK;
    inlay_diag why = INLAY_DIAG_INIT;

    if (timeline != NULL && timeline->reached < notice->fence.value) {
        if (timeline->status == INLAY_OK) {
            notice->host_use[0] = (uintptr_t)timeline->notices;
            timeline->notices = notice;
            (void)pthread_mutex_unlock(&timeline->mutex);
            return;
        }
        status = timeline->status;
        why = timeline->why;
    }
    if (timeline != NULL)
        (void)pthread_mutex_unlock(&timeline->mutex);
    notice->reached(notice->user, status, status != INLAY_OK ? &why : NULL);
}

bool fence_forget(inlay_fence_notice *notice)
{
    struct timeline *timeline = lock_timeline(notice->fence.timeline);
    inlay_fence_notice *before = NULL, *entry = timeline != NULL ? timeline->notices : NULL;

    while (entry != NULL && entry != notice) {
        before = entry;
        entry = next_notice(entry);
    }
    if (entry != NULL && before != NULL)
        before->host_use[0] = entry->host_use[0];
    else if (entry != NULL)
        timeline->notices = next_notice(entry);
    if (timeline != NULL)
        (void)pthread_mutex_unlock(&timeline->mutex);
    return entry != NULL;
}

void timeline_destroy(uint64_t id)
{
    struct timeline *timeline = lock_timeline(id);

    inlay_fence_notice *due;
    inlay_diag why = INLAY_DIAG_INIT;

    if (timeline == NULL)
        return;
    INLAY_CHECK((timeline->generation & 1) == 1);
    timeline->generation++;
    due = take_due(timeline, true);
    (void)pthread_mutex_unlock(&timeline->mutex);
    if (due != NULL)
        call_notices(due, inlay_fail(&why, INLAY_CANCELLED, "the timeline of this fence was destroyed"), &why);
    (void)pthread_mutex_lock(&table_mutex);
    INLAY_CHECK(free_count < slot_count);
    free_slots[free_count++] = (uint32_t)id - 1; /* has room: capacity covers every slot */
    (void)pthread_mutex_unlock(&table_mutex);
}

void timeline_renew(uint64_t *id)
{
    struct timeline *timeline = lock_timeline(*id);

    inlay_fence_notice *due;
    inlay_diag why = INLAY_DIAG_INIT;

    if (timeline == NULL)
        return;
    due = take_due(timeline, true);
    INLAY_CHECK((timeline->generation & 1) == 1);
    timeline->generation += 2; /* stays odd, which means in use; ids of the previous use no longer match */
    timeline->status = INLAY_OK;
    timeline->reached = 0;
    *id = (uint64_t)timeline->generation << 32 | (uint32_t)*id;
    (void)pthread_mutex_unlock(&timeline->mutex);
    if (due != NULL)
        call_notices(due, inlay_fail(&why, INLAY_CANCELLED, "the timeline of this fence was destroyed"), &why);
}

void fence_signal(inlay_fence fence, inlay_status status, const inlay_diag *why)
{
    struct timeline *timeline = lock_timeline(fence.timeline);
    inlay_fence_notice *due;
    inlay_diag reason;

    if (timeline == NULL)
        return;
    if (timeline->status == INLAY_OK && status == INLAY_OK && fence.value > timeline->reached)
        timeline->reached = fence.value;
    if (timeline->status == INLAY_OK && status != INLAY_OK) {
        timeline->why = (inlay_diag)INLAY_DIAG_INIT;
        if (why != NULL && INLAY_HAS(why, tensor))
            timeline->why = *why;
        timeline->status = boundary_finish_status(status, &timeline->why);
    }
    due = take_due(timeline, false);
    status = timeline->status;
    if (due != NULL)
        reason = timeline->why;
    (void)pthread_cond_broadcast(&timeline->moved);
    (void)pthread_mutex_unlock(&timeline->mutex);
    if (due != NULL)
        call_notices(due, status, &reason);
}

/* Copies a failure into diag, whose struct_size stays unchanged. */
static inlay_status copy_failure(inlay_diag *diag, const inlay_diag *why, inlay_status status)
{
    (void)inlay_fail(diag, status, "%s", why->text);
    if (diag != NULL && diag->code == status && INLAY_HAS(diag, tensor)) {
        diag->error_class = why->error_class;
        memcpy(diag->node, why->node, sizeof diag->node);
        memcpy(diag->tensor, why->tensor, sizeof diag->tensor);
    }
    return status;
}

/* Interval in which a waiting run polls its cancel word, which has no condition variable. */
enum { POLL_NS = 1000000 };

inlay_status fence_wait_until(inlay_fence fence, const inlay_run *run, uint64_t until_ns, inlay_diag *diag)
{
    struct timeline *timeline = lock_timeline(fence.timeline);
    inlay_status status = INLAY_OK;

    if (timeline == NULL)
        return INLAY_OK;
    while (timeline->reached < fence.value && timeline->status == INLAY_OK && status == INLAY_OK) {
        uint64_t poll_ns;
        struct timespec poll;

        if (run == NULL && until_ns == 0) {
            (void)pthread_cond_wait(&timeline->moved, &timeline->mutex);
            continue;
        }
        poll_ns = clock_ns() + POLL_NS;
        poll = (struct timespec){ .tv_sec = (time_t)(poll_ns / 1000000000), .tv_nsec = (long)(poll_ns % 1000000000) };
        (void)pthread_cond_timedwait(&timeline->moved, &timeline->mutex, &poll);
        status = run != NULL ? run_poll(run) : INLAY_OK;
        if (status == INLAY_OK && until_ns != 0 && clock_ns() >= until_ns)
            status = INLAY_BUSY;
    }
    if (timeline->reached >= fence.value)
        status = INLAY_OK;
    else if (timeline->status != INLAY_OK)
        status = copy_failure(diag, &timeline->why, timeline->status);
    else if (status != INLAY_OK)
        (void)inlay_fail(diag, status, "the run was stopped while it waited for a device: %s",
                         inlay_status_text(status));
    (void)pthread_mutex_unlock(&timeline->mutex);
    return status;
}

inlay_status fence_wait(inlay_fence fence, const inlay_run *run, inlay_diag *diag)
{
    return fence_wait_until(fence, run, 0, diag);
}

inlay_status fence_wait_uncancelled(inlay_fence fence, inlay_diag *diag)
{
    return fence_wait(fence, NULL, diag);
}

bool fence_reached(inlay_fence fence, inlay_status *out_status)
{
    struct timeline *timeline = lock_timeline(fence.timeline);
    bool reached = true;
    inlay_status status = INLAY_OK;

    if (timeline != NULL) {
        reached = timeline->reached >= fence.value;
        if (!reached && timeline->status != INLAY_OK) {
            reached = true;
            status = timeline->status;
        }
        (void)pthread_mutex_unlock(&timeline->mutex);
    }
    if (out_status != NULL)
        *out_status = status;
    return reached;
}
