#include "serve/base/rollouts.h"
#include "inlay/check.h"
#include <errno.h>
#include <fcntl.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

struct board_memory {
    uint32_t model_count;
    struct {
        char name[BOARD_NAME_BYTES];
        uint64_t version;
    } models[BOARD_MODELS]; /* [model_count] guarded by board_lock() */
    rollout_record rollouts[BOARD_ROLLOUTS];
    atomic_uint_fast64_t rollout_requests[BOARD_ROLLOUTS];
    struct board_process processes[];
};

typedef atomic_uint_fast64_t figure;

static size_t memory_bytes(uint32_t count)
{
    return sizeof(struct board_memory) + count * sizeof(struct board_process);
}

static inlay_status map(struct board *board, inlay_diag *diag)
{
    void *memory = mmap(NULL, memory_bytes(board->count), PROT_READ | PROT_WRITE, MAP_SHARED, board->fd, 0);

    if (memory == MAP_FAILED)
        return inlay_fail(diag, INLAY_OUT_OF_MEMORY, "cannot map the shared memory of the metrics: %s",
                          strerror(errno));
    board->memory = memory;
    board->processes = board->memory->processes;
    board->rollouts = board->memory->rollouts;
    board->rollout_requests = board->memory->rollout_requests;
    return INLAY_OK;
}

inlay_status board_create(uint32_t count, struct board *out_board, inlay_diag *diag)
{
    *out_board = (struct board){ .count = count, .fd = memfd_create("inlay-serve", MFD_CLOEXEC) };
    (void)pthread_mutex_init(&out_board->lock, NULL);
    /* Only pages that are used take memory. */
    if (out_board->fd < 0 || ftruncate(out_board->fd, (off_t)memory_bytes(count)) != 0)
        return inlay_fail(diag, INLAY_OUT_OF_MEMORY, "cannot create the shared memory of the metrics: %s",
                          strerror(errno));
    return map(out_board, diag);
}

inlay_status board_open(int fd, uint32_t count, uint32_t own, struct board *out_board, inlay_diag *diag)
{
    INLAY_CHECK(own < count);
    *out_board = (struct board){ .count = count, .own = own, .fd = fd };
    (void)pthread_mutex_init(&out_board->lock, NULL);
    return map(out_board, diag);
}

void board_close(struct board *board)
{
    if (board->memory != NULL)
        (void)munmap(board->memory, memory_bytes(board->count));
    if (board->count > 0 && board->fd >= 0)
        (void)close(board->fd);
    *board = (struct board){ .fd = -1 };
}

/* Sets the counters of an object, or the first `bytes` of a larger object, to 0. */
static void clear(void *object, size_t bytes)
{
    figure *figures = object;

    for (size_t i = 0; i < bytes / sizeof *figures; i++)
        atomic_store_explicit(&figures[i], 0, memory_order_relaxed);
}

void board_process_ended(struct board *board, uint32_t process, uint64_t cpu_us)
{
    struct board_process *ended = &board->processes[process];

    INLAY_CHECK(process < board->count);
    (void)atomic_fetch_add(&ended->counts.ended_cpu_us, cpu_us);
    clear(&ended->counts, offsetof(board_counts, answers));
    for (uint32_t i = 0; i < board->memory->model_count; i++)
        clear(&ended->models[i], offsetof(board_model, stats));
}

/* A process that crashes loses its lock of the file. */
static void lock_file(struct board *board, short type)
{
    struct flock range = { .l_type = type, .l_whence = SEEK_SET, .l_len = 1 };

    while (fcntl(board->fd, F_SETLKW, &range) != 0 && errno == EINTR)
        ;
}

void board_lock(struct board *board)
{
    (void)pthread_mutex_lock(&board->lock);
    lock_file(board, F_WRLCK);
}

void board_unlock(struct board *board)
{
    lock_file(board, F_UNLCK);
    (void)pthread_mutex_unlock(&board->lock);
}

static bool is_loaded(const struct board *board, uint32_t index)
{
    for (uint32_t i = 0; i < board->count; i++)
        if (atomic_load(&board->processes[i].models[index].loaded) > 0)
            return true;
    return false;
}

/* The place of a version; model_count: it has none. */
static uint32_t find(const struct board_memory *memory, const char *name, uint64_t version)
{
    uint32_t found = 0;

    while (found < memory->model_count &&
           (memory->models[found].version != version || strcmp(memory->models[found].name, name) != 0))
        found++;
    return found;
}

bool board_others_have(struct board *board, const char *name, uint64_t version)
{
    bool have = false;
    uint32_t index;

    board_lock(board);
    index = find(board->memory, name, version);
    for (uint32_t i = 0; i < board->count && index < board->memory->model_count; i++)
        have |= i != board->own && atomic_load(&board->processes[i].counts.listens) != 0 &&
                atomic_load(&board->processes[i].models[index].loaded) > 0;
    board_unlock(board);
    return have;
}

/* The place of a version: its own, a new one, or that of a version which is not loaded. */
static uint32_t place_of(struct board *board, const char *name, uint64_t version)
{
    struct board_memory *memory = board->memory;
    uint32_t found = find(memory, name, version);

    if (found < memory->model_count)
        return found;
    if (found == BOARD_MODELS)
        for (found = 0; found < BOARD_MODELS && is_loaded(board, found);)
            found++;
    if (found == BOARD_MODELS)
        return found;
    (void)snprintf(memory->models[found].name, sizeof memory->models[found].name, "%s", name);
    memory->models[found].version = version;
    for (uint32_t i = 0; i < board->count; i++)
        clear(&board->processes[i].models[found], sizeof(board_model));
    if (found == memory->model_count)
        memory->model_count++;
    return found;
}

inlay_status board_add_model(struct board *board, const char *name, uint64_t version, uint32_t *out_index,
                             inlay_diag *diag)
{
    uint32_t index;

    board_lock(board);
    index = place_of(board, name, version);
    if (index < BOARD_MODELS)
        (void)atomic_fetch_add(&board_own_model(board, index)->loaded, 1);
    board_unlock(board);
    *out_index = index;
    return index < BOARD_MODELS
               ? INLAY_OK
               : inlay_fail(diag, INLAY_LIMIT_EXCEEDED, "more than %d versions of models are loaded", BOARD_MODELS);
}

void board_remove_model(struct board *board, uint32_t index)
{
    INLAY_CHECK(atomic_load(&board_own_model(board, index)->loaded) > 0);
    (void)atomic_fetch_sub(&board_own_model(board, index)->loaded, 1);
}

/* Adds the counters to those of a local object. */
static void add_figures(void *local, const void *shared, size_t bytes)
{
    figure *to = local;
    const figure *from = shared;

    for (size_t i = 0; i < bytes / sizeof *to; i++) {
        uint64_t sum =
            atomic_load_explicit(&to[i], memory_order_relaxed) + atomic_load_explicit(&from[i], memory_order_relaxed);

        atomic_store_explicit(&to[i], sum, memory_order_relaxed);
    }
}

void board_sum(const struct board *board, board_counts *out)
{
    clear(out, sizeof *out);
    for (uint32_t i = 0; i < board->count; i++)
        add_figures(out, &board->processes[i].counts, sizeof *out);
}

void board_sum_model(const struct board *board, uint32_t index, board_model *out)
{
    uint64_t last_ms = 0;

    clear(out, sizeof *out);
    for (uint32_t i = 0; i < board->count; i++) {
        const board_model *from = &board->processes[i].models[index];
        uint64_t ms = atomic_load_explicit(&from->stats.last_ms, memory_order_relaxed);

        add_figures(out, from, sizeof *out);
        last_ms = ms > last_ms ? ms : last_ms;
    }
    atomic_store_explicit(&out->stats.last_ms, last_ms, memory_order_relaxed);
}
