/* A provider of Relu whose run fails in the way that the first element of the input demands, see fragile.h. */
#include "fragile.h"
#include "inlay/kit.h"
#include <errno.h>
#include <fcntl.h>
#include <linux/landlock.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

static void crash(void)
{
    volatile int *volatile nowhere = (volatile int *)8;

    *nowhere = 1;
}

/* Writes backwards from the output until a page is missing: over all that is shared with the host. */
static void overwrite(char *at, int byte)
{
    for (volatile char *volatile to = at;; to--)
        *to = (char)byte;
}

/* Returns memory that is not zero; NULL: there is none. */
static volatile char *take(bool maps, size_t bytes)
{
    volatile char *piece =
        maps ? mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0) : malloc(bytes);

    if (piece == NULL || (void *)(uintptr_t)piece == MAP_FAILED)
        return NULL;
    for (size_t i = 0; i < bytes; i += 4096)
        piece[i] = 1;
    return piece;
}

static inlay_status allocate(int demand, inlay_diag *diag)
{
    enum { PIECE = 16 << 20, MOST = 1024 };
    volatile char *pieces[MOST];
    int count = 0;

    while (count < MOST && (pieces[count] = take(demand == FRAGILE_MAP, PIECE)) != NULL)
        count++;
    if (demand != FRAGILE_EXHAUST)
        crash();
    while (count > 0)
        free((void *)(uintptr_t)pieces[--count]);
    return inlay_fail(diag, INLAY_OUT_OF_MEMORY, "no memory for another piece");
}

/* Is there a descriptor of a regular file of this size? */
static bool finds_file(off_t bytes)
{
    struct stat info;

    for (int fd = 0; fd < 1024; fd++)
        if (fstat(fd, &info) == 0 && S_ISREG(info.st_mode) && info.st_size == bytes)
            return true;
    return false;
}

/* Bits of what the constructor and the opening of the provider could do, or could not read. */
static unsigned opened;

/* Can the environment of the application be read, although the kernel could hide it? */
static bool reads_environment(void)
{
    char path[64];
    int fd;
    const bool can_hide =
        syscall(SYS_landlock_create_ruleset, NULL, 0, LANDLOCK_CREATE_RULESET_VERSION) >= 0 || errno == EPERM;

    (void)snprintf(path, sizeof path, "/proc/%d/environ", (int)getppid());
    fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd >= 0)
        (void)close(fd);
    return fd >= 0 && can_hide;
}

static unsigned try_opening(void)
{
    enum { FCHMODAT2 = 452 };
    const int file = open("/etc/passwd", O_RDONLY | O_CLOEXEC);
    const char *witness = getenv(FRAGILE_WITNESS);
    unsigned bits = file < 0;
    cpu_set_t cpus;

    bits |= (unsigned)(open("/tmp", O_RDWR | O_TMPFILE | O_CLOEXEC, 0600) >= 0) << 1;
    bits |= (unsigned)(open("/dev/null", O_WRONLY | O_CLOEXEC) >= 0) << 2;
    bits |= (unsigned)(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0) >= 0) << 3;
    bits |= (unsigned)(kill(getppid(), 0) == 0) << 4;
    bits |= (unsigned)(syscall(SYS_execve, "/", NULL, NULL) != 0 && errno != EPERM) << 5;
    bits |= (unsigned)(unlink("/fragile/none") != 0 && errno != EPERM) << 6;
    bits |= (unsigned)(syscall(FCHMODAT2, AT_FDCWD, "/fragile/none", 0600, 0) != 0 && errno != EPERM) << 7;
    bits |= (unsigned)(syscall(SYS_tgkill, getppid(), getppid(), 0) == 0) << 8;
    bits |= (unsigned)(pthread_kill(pthread_self(), 0) != 0) << 9;
    bits |= (unsigned)(setpriority(PRIO_PROCESS, (id_t)getppid(), 19) == 0) << 10;
    bits |= (unsigned)(sched_getaffinity(0, sizeof cpus, &cpus) != 0 ||
                       sched_setaffinity(getppid(), sizeof cpus, &cpus) == 0)
            << 11;
    bits |= (unsigned)(sched_setaffinity(0, sizeof cpus, &cpus) != 0) << 12;
    if (witness != NULL && mkdir(witness, 0700) == 0)
        bits |= 1u << 13;
    bits |= (unsigned)reads_environment() << 14;
    if (file >= 0)
        (void)close(file);
    return bits;
}

static __attribute__((constructor)) void load(void)
{
    opened |= try_opening();
}

static inlay_status open_provider(const inlay_host *host, const inlay_create_args *args, void **out, inlay_diag *diag)
{
    (void)host, (void)args, (void)out;
    opened |= try_opening();
    return getenv("FRAGILE_REFUSED") == NULL
               ? INLAY_OK
               : inlay_fail(diag, INLAY_UNSUPPORTED, "it has the application's variables");
}

/* Did the sandbox permit what it has to forbid, or the reverse? */
static bool escapes(int demand)
{
    switch (demand) {
    case FRAGILE_FILE:
        return open("/etc/passwd", O_RDONLY | O_CLOEXEC) >= 0 || open("/tmp", O_RDWR | O_TMPFILE, 0600) >= 0;
    case FRAGILE_SOCKET:
        return socket(AF_INET, SOCK_STREAM, 0) >= 0 || socket(AF_UNIX, SOCK_STREAM, 0) >= 0;
    case FRAGILE_FORK:
        return fork() >= 0;
    case FRAGILE_OPENING:
        return opened != 0;
    case FRAGILE_DESCRIPTOR:
        return finds_file(FRAGILE_FILE_BYTES);
    case FRAGILE_SECRET:
        return getenv("FRAGILE_TOKEN") != NULL || getenv("PATH") == NULL;
#if defined(SYS_arch_prctl)
    case FRAGILE_TILES: /* the registers of AMX, which the CPU may lack; another base of a segment is forbidden */
        return (syscall(SYS_arch_prctl, 0x1023, 18) != 0 && errno == EPERM) || syscall(SYS_arch_prctl, 0x1001, 0) == 0;
#endif
    default:
        return false;
    }
}

static inlay_status run(const kit_call *call)
{
    const float *input = call->in[0].data;
    float *output = call->out[0].data;
    const int demand = call->in[0].count > 0 ? (int)input[0] : 0;

    if (demand == FRAGILE_CRASH)
        crash();
    while (demand == FRAGILE_HANG)
        (void)usleep(1000);
    if (demand == FRAGILE_EXIT)
        _exit(3);
    if (demand == FRAGILE_ABORT)
        abort();
    if (demand == FRAGILE_WRITE_INPUT)
        *(volatile float *)(uintptr_t)input = 1;
    if (demand == FRAGILE_OVERWRITE_0 || demand == FRAGILE_OVERWRITE_FF)
        overwrite((char *)output, demand == FRAGILE_OVERWRITE_0 ? 0 : 0xff);
    if (demand >= FRAGILE_ALLOCATE && demand <= FRAGILE_EXHAUST)
        return allocate(demand, call->diag);
    if (demand == FRAGILE_LARGE)
        free((void *)(uintptr_t)take(false, (size_t)8 << 30));
    for (int64_t i = 0; i < call->in[0].count; i++)
        output[i] = input[i] < 0 ? 0 : input[i];
    if (demand == FRAGILE_MARK || escapes(demand))
        output[0] = -1;
    return INLAY_OK;
}

static bool supports(const kit_node *node, kit_refusal *why)
{
    (void)why;
    if (strcmp(node->info->name.data, "assess") == 0)
        crash();
    return true;
}

static inlay_status prepare(const kit_node *node, void **out_state, inlay_diag *diag)
{
    (void)out_state, (void)diag;
    if (strcmp(node->info->name.data, "compile") == 0)
        crash();
    return INLAY_OK;
}

/* The lowest cost, so that it is always chosen. */
static void cost(const kit_node *node, const kit_plan *shapes, inlay_cost *out)
{
    (void)node, (void)shapes;
    out->ns = 0.001;
}

static const kit_kernel kernels[] = { { .op_type = "Relu",
                                        .in_types = { KIT_BIT(FLOAT) },
                                        .supports = supports,
                                        .cost = cost,
                                        .prepare = prepare,
                                        .run = run } };
static const kit_table table = { kernels, KIT_COUNT(kernels) }, *const tables[] = { &table };
static const kit_provider provider = {
    .name = "fragile", .description = "fails on demand", .tables = tables, .table_count = 1, .open = open_provider
};
static const kit_plugin plugin = { .name = "fragile", .version = "1.0.0", .provider = &provider };

INLAY_PLUGIN_NOTE("fragile", "fragile", "")

inlay_status inlay_plugin_open(const inlay_host *host, const inlay_plugin **out_plugin, inlay_diag *diag)
{
    static kit_exports exports;

    return kit_open(&plugin, &exports, host, out_plugin, diag);
}
