/* partition/cost/cost_store.h - measurements of compiled kernels, stored in a file between runs of a program.
 *
 * The file costs/measured.bin of the cache folder is valid only on the machine that wrote it: native byte order,
 * records sorted by key, a checksum over all. A file that is damaged, has another format, or may have been written by
 * another user is ignored, and a message is logged. A writer takes a lock, reads the file, merges its records, writes a
 * temporary file and renames it. Readers therefore need no lock and always see a complete file, and concurrent writers
 * do not lose records. */
#ifndef PARTITION_COST_STORE_H
#define PARTITION_COST_STORE_H
#include "partition/cost/cost_key.h"

/* One measurement. */
typedef struct cost_record {
    cost_key key;
    double ns;        /* of one execution: of an offer, or of a kernel variant (cost_key.h) */
    float spread;     /* half of the samples are within ns * (1 +- spread) */
    uint32_t samples; /* number of timed executions, of all merged measurements */
    int64_t when;     /* seconds since 1970 of the last one; the oldest records are dropped when the file is full */
    char what[24];    /* "Conv", for people who inspect the file */
} cost_record;

enum { COST_STORE_MAX_RECORDS = 16384 };

typedef void (*cost_log_fn)(void *ctx, uint32_t level, const char *text);
typedef struct cost_log {
    cost_log_fn log; /* or NULL */
    void *ctx;
} cost_log;
INLAY_PRINTF(3, 4)
void cost_say(const cost_log *log, uint32_t level, const char *format, ...);

typedef struct cost_store {
    cost_record *records; /* [count] sorted; owned */
    uint32_t count;
} cost_store;

/* Reads folder/measured.bin. If the file is missing or invalid, *out is empty. Fails only if out of memory. */
INLAY_NODISCARD inlay_status cost_store_load(const char *folder, const cost_log *log, cost_store *out);
void cost_store_deinit(cost_store *store);
/* The record with that key; NULL: not measured. */
const cost_record *cost_store_find(const cost_store *store, cost_key key);

/* Adds measurements to folder/measured.bin. An existing record is replaced only if the new time differs by more than
 * the noise of both (at least 5 %). Otherwise only its sample count grows, so that plans remain stable. Sorts fresh. */
INLAY_NODISCARD inlay_status cost_store_merge(const char *folder, cost_record *fresh, uint32_t count,
                                              const cost_log *log, inlay_diag *diag);
/* The same in memory; fresh must be sorted (cost_key_order). */
INLAY_NODISCARD inlay_status cost_store_add(cost_store *store, const cost_record *fresh, uint32_t count);
/* Combines a record with another one of the same key; exposed for tests. */
void cost_record_absorb(cost_record *old, const cost_record *fresh);

typedef struct cost_list {
    cost_record *records; /* [count] in any order; owned, to be freed */
    uint32_t count;
} cost_list;

/* Appends a record. False: out of memory. */
bool cost_list_add(cost_list *list, const cost_record *record);
/* The first record with that key; NULL: none. */
cost_record *cost_list_find(const cost_list *list, cost_key key);
/* Sorts the list and combines records with equal keys: the mean of their times, and the larger of their spreads and of
 * the deviation between them. */
void cost_list_merge(cost_list *list);

/* Replaces folder/name atomically, through a temporary file. *diag names the file. */
INLAY_NODISCARD inlay_status cost_file_write(const char *folder, const char *name, const void *data, size_t bytes,
                                             inlay_diag *diag);
/* Reads folder/name, terminated by NUL; the caller frees it. *out_data is NULL if there is no such file, or if it
 * must not be read (not a regular file, owned by another user, writable by others, larger than max_bytes), which is
 * logged. */
INLAY_NODISCARD inlay_status cost_file_read(const char *folder, const char *name, size_t max_bytes, const cost_log *log,
                                            char **out_data, size_t *out_bytes);
#endif
