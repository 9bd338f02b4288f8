/* session/hash_memo.h - content hashes of constants, remembered from one session to the next.
 *
 * What a constant's hash was is known without reading it as long as its file is the same: device, inode, size, and both
 * times, to the nanosecond. Nobody writes to a file without moving one of them, save in the moment in which it was
 * looked at; so nothing is remembered of a file that has changed within the last seconds (as git does with its
 * index). */
#ifndef SESSION_HASH_MEMO_H
#define SESSION_HASH_MEMO_H
#include "graph/graph.h"

/* Fills in content_hash of the larger constants of graph and its bodies: from what folder knows of their files, the
 * others on several threads. Pages that were read go back to the system. folder NULL or "": nothing is remembered. now:
 * seconds, as time() has them. Returns how many constants had to be read. Never fails: what is not done here is hashed
 * when it is asked for. */
uint32_t hash_constants(struct graph *graph, const char *folder, int64_t now);
#endif
