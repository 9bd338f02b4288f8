#include "serve/base/run_budget.h"
#include "base/clock.h"
#include "inlay/check.h"
#include <time.h>

enum {
    PAUSE_NS = 5000000, /* between two checks of the memory in use by a waiting run */
    MOST_ATTEMPTS = 16, /* of one run */
    FREED_SHARE = 8,    /* a run is attempted again once an eighth of the memory of other runs is free */
    NOTHING_SHARE = 16  /* waiting does not help if the others hold less than a sixteenth of the budget */
};

void run_budget_init(struct run_budget *budget)
{
    (void)pthread_mutex_init(&budget->lock, NULL);
    (void)pthread_mutex_init(&budget->release_lock, NULL);
}

void run_budget_deinit(struct run_budget *budget)
{
    INLAY_CHECK(budget->running == 0 && !budget->is_taken);
    (void)pthread_mutex_destroy(&budget->release_lock);
    (void)pthread_mutex_destroy(&budget->lock);
}

void run_budget_begin(struct run_budget *budget, run_turn *turn)
{
    if (turn->is_next)
        turn->others = budget->used(budget->user);
    (void)pthread_mutex_lock(&budget->lock);
    turn->was_alone = budget->running == 0;
    turn->number = ++budget->begun;
    turn->attempts++;
    budget->running++;
    (void)pthread_mutex_unlock(&budget->lock);
}

void run_budget_end(struct run_budget *budget)
{
    (void)pthread_mutex_lock(&budget->lock);
    INLAY_CHECK(budget->running > 0);
    budget->running--;
    budget->ended++;
    (void)pthread_mutex_unlock(&budget->lock);
}

/* INLAY_OK: the run continues to wait. */
static inlay_status check_end(const run_turn *turn, inlay_diag *diag)
{
    if (__atomic_load_n(turn->cancel, __ATOMIC_RELAXED) != 0)
        return inlay_fail(diag, INLAY_CANCELLED, "the run was cancelled while it waited for memory");
    if (turn->deadline_ns != 0 && clock_ns() >= turn->deadline_ns)
        return inlay_fail(diag, INLAY_DEADLINE_EXCEEDED,
                          "the request's deadline passed while other runs held the memory that it needs");
    return INLAY_OK;
}

/* The lock is held. */
static void give_turn(struct run_budget *budget, run_turn *turn)
{
    if (!turn->is_next)
        return;
    turn->is_next = budget->is_taken = false;
}

void run_budget_leave(struct run_budget *budget, run_turn *turn)
{
    (void)pthread_mutex_lock(&budget->lock);
    give_turn(budget, turn);
    (void)pthread_mutex_unlock(&budget->lock);
}

/* Whether waiting would not have helped the last attempt, of a run that was next: the other runs had ended, and what
 * they hold between runs they hold still, or it is almost nothing. others: bytes that they hold now, which says nothing
 * of the attempt if one of them has ended since the idle memory before it was freed. The lock is held. */
static bool was_alone(const struct run_budget *budget, const run_turn *turn, uint64_t others)
{
    const bool others_ended = budget->ended - turn->ended > 1; /* the attempt has ended, too */
    const uint64_t nothing = budget->bytes / NOTHING_SHARE;

    return !others_ended && ((turn->was_alone && budget->begun == turn->number && turn->others <= others) ||
                             (turn->others <= nothing && others <= nothing));
}

/* Whether the run may be attempted again, because other runs have freed memory, or none is in progress. */
static bool take_turn(struct run_budget *budget, run_turn *turn, uint64_t most)
{
    const bool is_free = budget->used(budget->user) <= most;

    (void)pthread_mutex_lock(&budget->lock);
    if (!budget->is_taken && (is_free || budget->running == 0)) {
        budget->is_taken = turn->is_next = true;
        turn->ended = budget->ended;
    }
    (void)pthread_mutex_unlock(&budget->lock);
    return turn->is_next;
}

/* One thread at a time, because memory that another thread is about to free would be missing in the next attempt. */
static void release_idle(struct run_budget *budget)
{
    (void)pthread_mutex_lock(&budget->release_lock);
    budget->release_idle(budget->user);
    (void)pthread_mutex_unlock(&budget->release_lock);
}

inlay_status run_budget_wait(struct run_budget *budget, run_turn *turn, inlay_diag *diag)
{
    const uint64_t others = budget->used(budget->user), most = others - others / FREED_SHARE;
    const struct timespec pause = { 0, PAUSE_NS };
    inlay_status status = INLAY_OK;

    if (turn->attempts == MOST_ATTEMPTS)
        return inlay_fail(diag, INLAY_BUSY,
                          "the runs of other requests hold %llu of the %llu bytes for all runs; try again later",
                          (unsigned long long)others, (unsigned long long)budget->bytes);
    (void)pthread_mutex_lock(&budget->lock);
    if (turn->is_next && was_alone(budget, turn, others))
        status = INLAY_LIMIT_EXCEEDED;
    give_turn(budget, turn);
    (void)pthread_mutex_unlock(&budget->lock);
    if (status != INLAY_OK)
        return status;
    if (turn->attempts == 1)
        (void)atomic_fetch_add_explicit(budget->waits, 1, memory_order_relaxed);
    else
        (void)nanosleep(&pause, NULL);
    do { /* each time: runs that end meanwhile leave idle memory */
        release_idle(budget);
        if (take_turn(budget, turn, most)) {
            release_idle(budget); /* of runs that have ended since */
            return INLAY_OK;
        }
        (void)nanosleep(&pause, NULL);
        status = check_end(turn, diag);
    } while (status == INLAY_OK);
    return status;
}
