#include "remote/process.h"
#include "base/boundary.h"
#include "base/clock.h"
#include "base/memory.h"
#include "base/spawn.h"
#include "inlay/check.h"
#include "threads/fork.h"
#include "threads/threads.h"
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

enum {
    SPINS = 1000,      /* polls of the state before the host sleeps: about 30 us */
    SLICE_NS = 2000000 /* time between two looks at the process and at the caller */
};

/* Describes the last allocation that failed in the process; "": none did. */
static void describe_shortage(const isolate_process *process, char *text, size_t bytes)
{
    const uint64_t failed = __atomic_load_n(&process->header->failed_bytes, __ATOMIC_RELAXED);
    const uint64_t limit = __atomic_load_n(&process->header->failed_limit, __ATOMIC_RELAXED);

    text[0] = '\0';
    if (failed != 0)
        (void)snprintf(text, bytes,
                       "it ran out of its %" PRIu64 " bytes of memory (%" PRIu64 " more were requested; option "
                       "isolate_memory)",
                       limit, failed);
}

static void describe_end(isolate_process *process, const siginfo_t *info, const char *reason)
{
    const char *name = info->si_code != CLD_EXITED ? sigabbrev_np(info->si_status) : NULL, *and;
    char shortage[120];

    describe_shortage(process, shortage, sizeof shortage);
    and = shortage[0] != '\0' ? ", and " : "it ";

    process->collided = reason == NULL && info->si_code == CLD_EXITED && info->si_status == ISOLATE_EXIT_MAPPING;
    if (reason != NULL)
        (void)snprintf(process->why, sizeof process->why, "%s", reason);
    else if (info->si_pid == 0)
        (void)snprintf(process->why, sizeof process->why, "it ended");
    else if (process->collided)
        (void)snprintf(process->why, sizeof process->why, "the addresses of the shared memory are in use there");
    else if (info->si_code == CLD_EXITED && info->si_status == ISOLATE_EXIT_LAYOUT)
        (void)snprintf(process->why, sizeof process->why, "inlay-probe belongs to another version of inlay");
    else if (info->si_code == CLD_EXITED)
        (void)snprintf(process->why, sizeof process->why, "%s%sended with exit code %d", shortage, and,
                       info->si_status);
    else if (info->si_status == SIGKILL)
        (void)snprintf(process->why, sizeof process->why,
                       "%s%swas killed (SIGKILL), as Linux does when the memory of the machine is used up", shortage,
                       and);
    else
        (void)snprintf(process->why, sizeof process->why, "%s%scrashed (SIG%s)", shortage, and,
                       name != NULL ? name : "?");
}

static void count_end(isolate_process *process)
{
    enum { ROOM = sizeof process->ends / sizeof process->ends[0] };

    if (process->end_count == ROOM)
        memmove(process->ends, process->ends + 1, --process->end_count * sizeof process->ends[0]);
    process->ends[process->end_count++] = clock_ns();
}

/* Seconds until the process may be started again; 0 = now. The lock is held. */
static uint32_t excluded_seconds(const isolate_process *process)
{
    const uint64_t window = (uint64_t)ISOLATE_ENDS_SECONDS * 1000000000u, past = clock_ns() - process->ends[0];

    return process->end_count <= ISOLATE_MAX_ENDS || past >= window ? 0 : (uint32_t)((window - past) / 1000000000u) + 1;
}

/* Kills the process if it still runs, and reaps it. reason: why it is killed; NULL: it has ended by itself. The lock is
 * held. */
static void end_process(isolate_process *process, const char *reason)
{
    siginfo_t info = { 0 };

    INLAY_CHECK(process->running);
    (void)syscall(SYS_pidfd_send_signal, process->pidfd, SIGKILL, NULL, 0);
    while (waitid(P_PIDFD, (id_t)process->pidfd, &info, WEXITED) != 0 && errno == EINTR)
        ;
    describe_end(process, &info, reason);
    (void)close(process->pidfd);
    (void)close(process->socket);
    process->running = false;
}

/* Has the process of this generation ended? */
static bool has_ended(isolate_process *process, uint32_t generation)
{
    bool ended;

    (void)pthread_mutex_lock(&process->lock);
    ended = !process->running || process->generation != generation;
    if (!ended) {
        struct pollfd pollfd = { .fd = process->pidfd, .events = POLLIN };

        ended = poll(&pollfd, 1, 0) > 0;
        if (ended) {
            end_process(process, NULL);
            if (!process->collided)
                count_end(process);
        }
    }
    (void)pthread_mutex_unlock(&process->lock);
    return ended;
}

/* Kills the process of this generation for this reason. */
static void stop(isolate_process *process, uint32_t generation, const char *reason)
{
    (void)pthread_mutex_lock(&process->lock);
    if (process->running && process->generation == generation) {
        end_process(process, reason);
        count_end(process);
    }
    (void)pthread_mutex_unlock(&process->lock);
}

static void stop_hung(isolate_process *process, uint32_t generation, uint64_t ms)
{
    char reason[100];

    (void)snprintf(reason, sizeof reason, "it did not answer within %llu ms and was stopped", (unsigned long long)ms);
    stop(process, generation, reason);
}

/* stopped: why the caller had asked to stop; INLAY_OK: it had not. */
static inlay_status report_end(isolate_process *process, inlay_status stopped, inlay_diag *diag)
{
    char wait[80] = "";
    inlay_status status;
    uint32_t seconds;

    (void)pthread_mutex_lock(&process->lock);
    seconds = excluded_seconds(process);
    if (seconds > 0)
        (void)snprintf(wait, sizeof wait, "; it ended too often and is not started again for %u s", seconds);
    status = inlay_fail(diag, stopped != INLAY_OK ? stopped : INLAY_DEVICE_LOST,
                        "the process of isolated %s has ended: %s%s", process->name,
                        process->why[0] != '\0' ? process->why : "it could not be started", wait);
    (void)pthread_mutex_unlock(&process->lock);
    return status;
}

bool isolate_process_may_run(isolate_process *process)
{
    bool may;

    (void)pthread_mutex_lock(&process->lock);
    may = excluded_seconds(process) == 0;
    (void)pthread_mutex_unlock(&process->lock);
    return may;
}

isolate_channel *isolate_channel_take(isolate_process *process, uint32_t generation)
{
    const uint32_t all = (UINT32_C(1) << ISOLATE_CHANNELS) - 1;
    isolate_channel *channel = NULL;

    (void)pthread_mutex_lock(&process->lock);
    while (process->busy == all && process->running && process->generation == generation)
        (void)pthread_cond_wait(&process->idle, &process->lock);
    if (process->running && process->generation == generation) {
        const uint32_t index = (uint32_t)__builtin_ctz(~process->busy);

        process->busy |= UINT32_C(1) << index;
        channel = &process->header->channels[index];
        if ((process->served >> index & 1) == 0) {
            const char byte = (char)index;

            (void)!send(process->socket, &byte, 1, MSG_NOSIGNAL | MSG_DONTWAIT);
            process->served |= UINT32_C(1) << index;
        }
    }
    (void)pthread_mutex_unlock(&process->lock);
    return channel;
}

void isolate_channel_give(isolate_process *process, isolate_channel *channel)
{
    (void)pthread_mutex_lock(&process->lock);
    process->busy &= ~(UINT32_C(1) << (channel - process->header->channels));
    (void)pthread_cond_broadcast(&process->idle);
    (void)pthread_mutex_unlock(&process->lock);
}

/* When the caller asked to stop, and why. */
typedef struct stop_request {
    uint64_t at;
    inlay_status status; /* INLAY_OK: it did not */
} stop_request;

/* Looks at the caller and at the clock while a call is in progress. False: the process has ended. */
static bool look(isolate_process *process, isolate_channel *channel, uint32_t generation, const isolate_wait *wait,
                 uint64_t began, stop_request *request)
{
    const uint64_t now = clock_ns(), grace_ms = wait->grace_ms != 0 ? wait->grace_ms : wait->limit_ms;

    if (request->status == INLAY_OK && wait->poll != NULL) {
        *request = (stop_request){ now, wait->poll(wait->ctx) };
        if (request->status != INLAY_OK)
            __atomic_store_n(&channel->stop, (uint32_t)request->status, __ATOMIC_RELEASE);
    }
    if (wait->limit_ms != 0 && now - began > wait->limit_ms * 1000000)
        stop_hung(process, generation, wait->limit_ms);
    else if (request->status != INLAY_OK && grace_ms != 0 && now - request->at > grace_ms * 1000000)
        stop_hung(process, generation, grace_ms);
    return !has_ended(process, generation);
}

inlay_status isolate_channel_outbox(isolate_process *process, isolate_channel *channel, const char **out_box,
                                    inlay_diag *diag)
{
    char **outbox = &process->outboxes[channel - process->header->channels];

    if (*outbox == NULL) {
        (void)pthread_mutex_lock(&process->lock);
        *outbox = isolate_heap_alloc(&process->results, ISOLATE_OUTBOX_BYTES);
        (void)pthread_mutex_unlock(&process->lock);
    }
    channel->outbox = *outbox;
    *out_box = *outbox;
    return *outbox != NULL ? INLAY_OK : no_memory(diag, "for a call of isolated %s", process->name);
}

static void answer(isolate_channel *channel, const isolate_wait *wait)
{
    isolate_callback callback = channel->callback;

    callback.text[sizeof callback.text - 1] = '\0';
    if (callback.rank > INLAY_MAX_RANK)
        callback.rank = INLAY_MAX_RANK;
    callback.status = wait->callback != NULL ? wait->callback(wait->ctx, channel, &callback) : INLAY_UNSUPPORTED;
    channel->callback = callback;
}

inlay_status isolate_channel_call(isolate_process *process, isolate_channel *channel, uint32_t generation,
                                  uint32_t call, const void *request, const isolate_wait *wait, inlay_diag *diag)
{
    const uint32_t spins = process->spins;
    const uint64_t ticket = __atomic_add_fetch(&process->tickets, 1, __ATOMIC_RELAXED);
    stop_request stop_asked = { 0 };
    uint64_t began = 0;
    uint32_t polls;
    inlay_diag own;

    channel->call = call;
    channel->request = request;
    channel->stop = 0;
    channel->spins = spins;
    channel->host_cpu = sched_getcpu();
    channel->outbox_bytes = 0;
    polls = channel->cpu != channel->host_cpu ? spins : 0;
    channel->ticket = ticket;
    channel->receipt = 0;
    isolate_set_state(channel, ISOLATE_REQUEST);
    for (;;) {
        const uint32_t state = isolate_wait_state(channel, ISOLATE_REQUEST, began == 0 ? polls : 0, SLICE_NS);

        if (state == ISOLATE_IDLE)
            break;
        if (began == 0)
            began = clock_ns();
        if (!look(process, channel, generation, wait, began, &stop_asked))
            return report_end(process, stop_asked.status, diag);
        if (state == ISOLATE_CALLBACK) {
            answer(channel, wait);
            isolate_set_state(channel, ISOLATE_REQUEST);
        }
    }
    if (channel->receipt != ~ticket) {
        stop(process, generation, "it wrote to memory outside of its buffers and was stopped");
        return report_end(process, INLAY_OK, diag);
    }
    __atomic_store_n(&process->header->failed_bytes, 0, __ATOMIC_RELAXED); /* it did without, or reported it */
    if (channel->status == INLAY_OK)
        return INLAY_OK;
    own = channel->diag;
    own.struct_size = sizeof own;
    if (boundary_finish_status(channel->status, &own) == INLAY_OUT_OF_MEMORY && process->memory_bytes > 0) {
        const size_t used = strlen(own.text);

        (void)snprintf(own.text + used, sizeof own.text - used,
                       " (option isolate_memory: its process may have %llu bytes)",
                       (unsigned long long)process->memory_bytes);
    }
    return forward_plugin_error(&(boundary_call){ NULL, NULL }, own.code, &own, diag);
}

inlay_status isolate_process_init(isolate_process *process, const char *helper, const char *name, int file,
                                  inlay_diag *diag)
{
    int error;

    *process = (isolate_process){ .helper = helper,
                                  .name = name,
                                  .file = file,
                                  .results.fd = -1,
                                  .forks = fork_count,
                                  .spins = threads_budget() > 1 ? SPINS : 0 };
    (void)pthread_mutex_init(&process->lock, NULL);
    (void)pthread_mutex_init(&process->start_lock, NULL);
    (void)pthread_cond_init(&process->idle, NULL);
    error = isolate_heap_init(&process->arguments);
    if (error == 0)
        error = isolate_heap_init(&process->results);
    if (error == 0)
        process->header = isolate_heap_alloc(&process->results, sizeof *process->header);
    if (error != 0 || process->header == NULL)
        return inlay_fail(diag, error == 0 || error == ENOMEM ? INLAY_OUT_OF_MEMORY : INLAY_IO_ERROR,
                          "cannot create shared memory for isolated %s: %s", name,
                          strerror(error != 0 ? error : ENOMEM));
    return INLAY_OK;
}

static void limit_memory(const isolate_process *process)
{
    const struct rlimit limit = { process->memory_bytes, process->memory_bytes };

    if (process->memory_bytes > 0)
        (void)prlimit(process->pid, RLIMIT_DATA, &limit, NULL);
}

void isolate_process_limit(isolate_process *process, uint64_t memory_bytes)
{
    (void)pthread_mutex_lock(&process->lock);
    process->memory_bytes = memory_bytes;
    if (process->running)
        limit_memory(process);
    (void)pthread_mutex_unlock(&process->lock);
}

void isolate_process_deinit(isolate_process *process)
{
    INLAY_CHECK(process->busy == 0);
    if (process->running && process->forks == fork_count) {
        end_process(process, "closed");
    } else if (process->running) {
        (void)close(process->pidfd);
        (void)close(process->socket);
    }
    isolate_heap_deinit(&process->arguments);
    isolate_heap_deinit(&process->results);
    (void)pthread_cond_destroy(&process->idle);
    (void)pthread_mutex_destroy(&process->start_lock);
    (void)pthread_mutex_destroy(&process->lock);
}

/* Moves a descriptor out of the numbers that the process gets, so that no dup2 replaces one that is still needed. */
static int move_up(int *fd)
{
    const int higher = fcntl(*fd, F_DUPFD_CLOEXEC, ISOLATE_FILE_FD + 1);

    (void)close(*fd);
    *fd = higher;
    return higher < 0 ? errno : 0;
}

static int spawn(isolate_process *process, int socket, int results, int arguments, int file)
{
    char where[5][32];
    const char *const argv[] = { process->helper, "--serve-provider", where[0], where[1],
                                 where[2],        where[3],           where[4], NULL };
    const spawn_fd fds[] = { { SPAWN_NULL, 0 },
                             { SPAWN_NULL, 1 },
                             { SPAWN_NULL, 2 },
                             { socket, ISOLATE_SOCKET_FD },
                             { results, ISOLATE_RESULTS_FD },
                             { arguments, ISOLATE_ARGUMENTS_FD },
                             { file, ISOLATE_FILE_FD } };
    const char *environment[SPAWN_VARIABLES];
    const spawn_args args = { .argv = argv,
                              .fds = fds,
                              .fd_count = sizeof fds / sizeof fds[0],
                              .own_group = true,
                              .bare = true,
                              .environment = environment };

    (void)snprintf(where[0], sizeof where[0], "%zx", (size_t)(uintptr_t)process->results.base);
    (void)snprintf(where[1], sizeof where[1], "%zx", process->results.bytes);
    (void)snprintf(where[2], sizeof where[2], "%zx", (size_t)(uintptr_t)process->arguments.base);
    (void)snprintf(where[3], sizeof where[3], "%zx", process->arguments.bytes);
    (void)snprintf(where[4], sizeof where[4], "%zx", sizeof *process->header);
    spawn_pick_environment(environment);
    return spawn_start(&args, &process->pid);
}

/* Starts the process. The lock is held, and no call is in progress. Returns 0 or an errno. */
static int launch(isolate_process *process)
{
    int ends[2] = { -1, -1 };
    int fds[4] = { -1, fcntl(process->results.fd, F_DUPFD_CLOEXEC, ISOLATE_FILE_FD + 1),
                   isolate_heap_read_only(&process->arguments),
                   fcntl(process->file, F_DUPFD_CLOEXEC, ISOLATE_FILE_FD + 1) };
    int error = fds[1] < 0 || fds[2] < 0 || fds[3] < 0 ? errno : 0;

    if (error == 0 && socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) != 0)
        error = errno;
    fds[0] = ends[1];
    if (error == 0)
        error = move_up(&fds[0]);
    if (error == 0)
        error = move_up(&fds[2]);
    if (error == 0)
        error = spawn(process, fds[0], fds[1], fds[2], fds[3]);
    if (error == 0) {
        process->pidfd = (int)syscall(SYS_pidfd_open, process->pid, 0);
        if (process->pidfd < 0) {
            error = errno;
            (void)kill(process->pid, SIGKILL);
            (void)waitpid(process->pid, NULL, 0);
        }
    }
    for (size_t i = 0; i < sizeof fds / sizeof fds[0]; i++)
        if (fds[i] >= 0)
            (void)close(fds[i]);
    if (error != 0) {
        if (ends[0] >= 0)
            (void)close(ends[0]);
        return error;
    }
    limit_memory(process);
    process->socket = ends[0];
    process->running = true;
    process->generation++;
    process->served = 0;
    return 0;
}

static inlay_status first_call(isolate_process *process, uint32_t call, const isolate_start *start,
                               void (*first)(void *ctx, const isolate_channel *channel, const char *outbox), void *ctx,
                               inlay_diag *diag)
{
    const isolate_wait wait = { .limit_ms = ISOLATE_START_MS };
    const uint32_t generation = process->generation;
    isolate_channel *channel = isolate_channel_take(process, generation);
    const char *outbox = NULL;
    inlay_status status;

    if (channel == NULL)
        return report_end(process, INLAY_OK, diag);
    status = isolate_channel_outbox(process, channel, &outbox, diag);
    if (status == INLAY_OK)
        status = isolate_channel_call(process, channel, generation, call, start, &wait, diag);
    if (status == INLAY_OK && first != NULL)
        first(ctx, channel, outbox);
    isolate_channel_give(process, channel);
    return status;
}

/* Starts the process once, unless it runs. start_lock is held. */
static inlay_status start_once(isolate_process *process, uint32_t call, const isolate_start *start,
                               void (*first)(void *ctx, const isolate_channel *channel, const char *outbox), void *ctx,
                               uint32_t *out_generation, inlay_diag *diag)
{
    inlay_status status = INLAY_OK;
    int error = 0;
    bool runs, excluded;

    (void)pthread_mutex_lock(&process->lock);
    runs = process->running;
    excluded = excluded_seconds(process) > 0;
    process->collided = false;
    if (!runs && !excluded) {
        while (process->busy != 0) /* calls that notice the end of the last process in a moment */
            (void)pthread_cond_wait(&process->idle, &process->lock);
        memset(process->header, 0, sizeof *process->header);
        error = launch(process);
    }
    *out_generation = process->generation;
    (void)pthread_mutex_unlock(&process->lock);
    if (error != 0)
        status = inlay_fail(diag, error == ENOMEM ? INLAY_OUT_OF_MEMORY : INLAY_IO_ERROR,
                            "the process of isolated %s cannot be started: %s", process->name, strerror(error));
    else if (!runs && excluded)
        status = report_end(process, INLAY_OK, diag);
    else if (!runs)
        status = first_call(process, call, start, first, ctx, diag);
    if (!runs && status != INLAY_OK) {
        (void)pthread_mutex_lock(&process->lock);
        if (process->running)
            end_process(process, "it could not open the provider");
        (void)pthread_mutex_unlock(&process->lock);
    }
    return status;
}

inlay_status isolate_process_start(isolate_process *process, uint32_t call, const isolate_start *start,
                                   void (*first)(void *ctx, const isolate_channel *channel, const char *outbox),
                                   void *ctx, uint32_t *out_generation, inlay_diag *diag)
{
    enum { ATTEMPTS = 8 };
    inlay_status status;

    if (process->forks != fork_count)
        return inlay_fail(diag, INLAY_DEVICE_LOST, "isolated %s was opened before fork(); create a new session",
                          process->name);
    (void)pthread_mutex_lock(&process->start_lock);
    status = start_once(process, call, start, first, ctx, out_generation, diag);
    /* Each process places its libraries at other random addresses. */
    for (int i = 1; i < ATTEMPTS && status == INLAY_DEVICE_LOST && process->collided; i++)
        status = start_once(process, call, start, first, ctx, out_generation, diag);
    (void)pthread_mutex_unlock(&process->start_lock);
    return status;
}
