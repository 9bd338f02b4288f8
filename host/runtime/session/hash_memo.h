/* session/hash_memo.h - content hashes of constants, cached across sessions.
 *
 * The cached hash of a constant is valid as long as its file is unchanged: device, inode, size, and both timestamps in
 * nanoseconds. Every write changes one of these facts, except a write in the same instant in which they were read. So
 * no hashes are cached for a file that has changed within the last seconds (git does the same with its index). */
#ifndef SESSION_HASH_MEMO_H
#define SESSION_HASH_MEMO_H
#include "graph/graph.h"

/* Sets content_hash of the larger constants of graph and its bodies: from the cache in folder if possible, otherwise by
 * hashing them on several threads. Releases the mapped pages that were read. folder NULL or "": no cache. now: as
 * returned by time(). Returns the number of constants that were read. Never fails: a missing hash is computed when it
 * is needed. */
uint32_t hash_constants(struct graph *graph, const char *folder, int64_t now);
/* Sets content_hash of the larger constants of `to` and its bodies that are the same memory, with the same type and
 * shape, as constants of `from` and its bodies. Out of memory: sets none. */
void hash_copy(const struct graph *from, struct graph *to);
#endif
