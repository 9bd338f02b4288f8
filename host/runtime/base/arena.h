/* base/arena.h - memory that is freed all at once.
 *
 * The host has three lifetimes (model, session, run), each with an arena. Not thread-safe: one thread fills an arena;
 * afterwards any thread may read. */
#ifndef BASE_ARENA_H
#define BASE_ARENA_H
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct arena_block arena_block;
struct arena {
    arena_block *blocks; /* newest first */
    char *next;          /* free space of the newest block */
    char *end;
    char *clean; /* the newest block is zero from here on; before, it holds data of allocations before arena_reset() */
    size_t total_bytes; /* allocated from the system */
};

/* {0} is an empty arena. */
void arena_deinit(struct arena *arena); /* frees all blocks; the arena is empty again */

/* Empties the arena but keeps its newest block (of at most a megabyte), so that a loop that fills and resets the arena
 * soon needs no system calls. */
void arena_reset(struct arena *arena);

/* Zeroed memory aligned to 16 bytes, NULL when out of memory. 0 bytes give a valid pointer. */
void *arena_alloc(struct arena *arena, size_t bytes);
/* As arena_alloc(), for count elements; NULL also if the product overflows. */
void *arena_array(struct arena *arena, size_t count, size_t element_bytes);
/* arena_alloc() as a callback: ctx is the arena. */
void *arena_alloc_callback(void *ctx, size_t bytes);
void *arena_copy(struct arena *arena, const void *data, size_t bytes);
/* A copy of the `count` items of a list with room for `room` (>= count) items, zeroed after the copy; NULL as above. */
void *arena_grown(struct arena *arena, const void *list, size_t count, size_t room, size_t item_bytes);
/* Makes room for `more` items after the `count` items of a list, which is NULL or was grown by this function before. As
 * list_reserve() of base/memory.h, but the new room is zeroed. */
bool arena_reserve(struct arena *arena, void *list_address, size_t count, size_t more, size_t item_bytes);
#define ARENA_GROW(a, list, count) arena_reserve(a, &(list), count, 1, sizeof *(list))

char *arena_string(struct arena *arena, const char *text);
char *arena_string_n(struct arena *arena, const char *text, size_t bytes); /* adds the NUL */
char *arena_format(struct arena *arena, const char *format, ...) __attribute__((format(printf, 2, 3)));
#endif
