/* Releases sessions that a program may still run. ONNX Runtime's Java classes release a session in close(), during runs
 * of other threads, too; a run that begins afterwards gets an error instead of freed memory. */
#include "ort.h"
#include "inlay/check.h"
#include <stdlib.h>

/* The structs of the sessions that were released last, without what they own. */
enum { MOST_SESSIONS = 1024 };
static void *sessions[MOST_SESSIONS]; /* atomic */
static uint32_t next_session;         /* atomic */

/* Flags of OrtSession.users. ORPHANED: the last call to leave frees the session, because the call that released it was
 * made within a run. */
#define RELEASED (UINT32_C(1) << 31)
#define ORPHANED (UINT32_C(1) << 30)

static struct {
    pthread_mutex_t lock;
    pthread_cond_t left; /* the last call left a released session */
} released = { .lock = PTHREAD_MUTEX_INITIALIZER, .left = PTHREAD_COND_INITIALIZER };

static _Thread_local uint32_t depth; /* calls of this thread between enter and leave */

static void free_session(OrtSession *session)
{
    const uint32_t at = __atomic_fetch_add(&next_session, 1, __ATOMIC_RELAXED) % MOST_SESSIONS;

    session->clear(session);
    free(__atomic_exchange_n(&sessions[at], (void *)session, __ATOMIC_ACQ_REL));
}

/* Ends a call that was counted in users. */
static void uncount(OrtSession *session)
{
    uint32_t users = __atomic_sub_fetch(&session->users, 1, __ATOMIC_ACQ_REL);

    if (users == RELEASED) {
        (void)pthread_mutex_lock(&released.lock);
        (void)pthread_cond_broadcast(&released.left);
        (void)pthread_mutex_unlock(&released.lock);
    } else if (users == (RELEASED | ORPHANED) && __atomic_compare_exchange_n(&session->users, &users, RELEASED, false,
                                                                             __ATOMIC_ACQ_REL, __ATOMIC_RELAXED)) {
        free_session(session);
    }
}

OrtStatus *ort_session_enter(OrtSession *session)
{
    if ((__atomic_add_fetch(&session->users, 1, __ATOMIC_ACQ_REL) & RELEASED) != 0) {
        uncount(session);
        return ort_fail(ORT_FAIL, "The session has been released.");
    }
    depth++;
    return NULL;
}

void ort_session_leave(OrtSession *session)
{
    INLAY_CHECK(depth > 0);
    depth--;
    uncount(session);
}

/* Waits for runs of other threads, which may use memory and libraries that the program frees next. A run cannot wait
 * for itself, nor for one that may wait for it. */
void ort_ReleaseSession(OrtSession *session)
{
    const uint32_t flags = depth > 0 ? RELEASED | ORPHANED : RELEASED;

    if (session == NULL || (__atomic_fetch_or(&session->users, flags, __ATOMIC_ACQ_REL) & RELEASED) != 0)
        return;
    if (depth > 0) {
        (void)__atomic_add_fetch(&session->users, 1, __ATOMIC_ACQ_REL);
        uncount(session);
        return;
    }
    (void)pthread_mutex_lock(&released.lock);
    while (__atomic_load_n(&session->users, __ATOMIC_ACQUIRE) != RELEASED)
        (void)pthread_cond_wait(&released.left, &released.lock);
    (void)pthread_mutex_unlock(&released.lock);
    free_session(session);
}

OrtValue *ort_value_alloc(void)
{
    return calloc(1, sizeof(OrtValue));
}

/* Frees the struct of a released value after many others were released. Until then, a run that gets it finds that it
 * has no references: Java's run() does not check that an input was not closed. */
void ort_value_free(OrtValue *value)
{
    enum { MOST_VALUES = 8192 };
    static void *values[MOST_VALUES]; /* atomic */
    static uint32_t next;             /* atomic */
    const uint32_t at = __atomic_fetch_add(&next, 1, __ATOMIC_RELAXED) % MOST_VALUES;

    free(__atomic_exchange_n(&values[at], (void *)value, __ATOMIC_ACQ_REL));
}

OrtTensorTypeAndShapeInfo *ort_shape_alloc(void)
{
    return calloc(1, sizeof(OrtTensorTypeAndShapeInfo));
}

void ort_shape_free(OrtTensorTypeAndShapeInfo *info)
{
    free(info);
}
