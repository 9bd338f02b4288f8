#include "probe/serve_provider.h"
#include "inlay/check.h"
#include "remote/shared.h"
#include "probe/restrict.h"
#include "probe/served.h"
#include "probe/shortage.h"
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

/* Moves the calling thread away from CPU `cpu`, if another CPU is permitted, and then lets Linux move it again. */
static void leave_cpu(int cpu)
{
    cpu_set_t all, others;

    if (sched_getaffinity(0, sizeof all, &all) != 0)
        return;
    others = all;
    CPU_CLR((size_t)cpu, &others);
    if (CPU_COUNT(&others) > 0 && sched_setaffinity(0, sizeof others, &others) == 0)
        (void)sched_setaffinity(0, sizeof all, &all);
}

/* Returns how long to poll for the next call: not at all if the host needs this CPU to make it. Moves to another CPU if
 * both stay on one CPU. */
static uint32_t choose_spins(isolate_channel *channel, uint32_t *shared_calls)
{
    enum { MOVE_AFTER = 16 };

    channel->cpu = sched_getcpu();
    if (channel->cpu != channel->host_cpu) {
        *shared_calls = 0;
        return 2 * channel->spins;
    }
    if (++*shared_calls % MOVE_AFTER == 0 && channel->cpu >= 0)
        leave_cpu(channel->cpu);
    return 0;
}

/* Serves one channel. */
static void *serve(void *arg)
{
    isolate_channel *channel = arg;
    uint32_t spins = 0, shared_calls = 0;

    for (;;) {
        inlay_status status;
        uint64_t ticket;

        if (isolate_wait_state(channel, ISOLATE_IDLE, spins, 0) != ISOLATE_REQUEST)
            continue;
        ticket = channel->ticket;
        status = served_call(channel);
        spins = choose_spins(channel, &shared_calls);
        channel->status = status;
        channel->receipt = ~ticket;
        isolate_set_state(channel, ISOLATE_IDLE);
    }
    return NULL;
}

/* Maps one of the shared memories where the host has mapped it. */
static bool map(int fd, const char *address, const char *bytes, int protection)
{
    void *at = (void *)(uintptr_t)strtoull(address, NULL, 16);
    const bool ok = mmap(at, (size_t)strtoull(bytes, NULL, 16), protection,
                         MAP_SHARED | MAP_NORESERVE | MAP_FIXED_NOREPLACE, fd, 0) == at;

    (void)close(fd);
    return ok;
}

/* Starts a thread for each channel that the host begins to use. Returns when the host has ended. */
static void serve_channels(isolate_header *header, int parent)
{
    struct pollfd fds[2] = { { .fd = ISOLATE_SOCKET_FD, .events = POLLIN }, { .fd = parent, .events = POLLIN } };

    for (;;) {
        unsigned char channel;
        pthread_t thread;
        ssize_t got;

        if (poll(fds, 2, -1) < 0) {
            if (errno == EINTR)
                continue;
            return;
        }
        if (fds[1].revents != 0)
            return;
        got = recv(ISOLATE_SOCKET_FD, &channel, 1, 0);
        if (got <= 0 || channel >= ISOLATE_CHANNELS ||
            pthread_create(&thread, NULL, serve, &header->channels[channel]) != 0)
            return;
        (void)pthread_detach(thread);
    }
}

int serve_provider(char **argv)
{
    const int parent = (int)syscall(SYS_pidfd_open, getppid(), 0);
    isolate_header *header;
    int type;

    if (getsockopt(ISOLATE_SOCKET_FD, SOL_SOCKET, SO_TYPE, &type, &(socklen_t){ sizeof type }) != 0) {
        (void)fprintf(stderr, "inlay-probe is started by inlay to run a plugin\n");
        return 2;
    }
    if (strtoull(argv[4], NULL, 16) != sizeof(isolate_header))
        return ISOLATE_EXIT_LAYOUT;
    restrict_signals();
    restrict_process();
    restrict_memory();
    if (!map(ISOLATE_RESULTS_FD, argv[0], argv[1], PROT_READ | PROT_WRITE) ||
        !map(ISOLATE_ARGUMENTS_FD, argv[2], argv[3], PROT_READ))
        return ISOLATE_EXIT_MAPPING;
    header = (isolate_header *)(uintptr_t)strtoull(argv[0], NULL, 16);
    shortage_note_in(header);
    serve_channels(header, parent);
    _exit(0); /* threads of the plugin may still run */
}
