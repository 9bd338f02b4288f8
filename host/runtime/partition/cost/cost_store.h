/* partition/cost/cost_store.h - measurements of real executables, kept in a file between runs of a program.
 *
 * The file costs/measured.bin of the cache folder is for the machine that wrote it: native byte order, records sorted
 * by key, a checksum over all. A file that is damaged, of another format, or planted by somebody else is as none, with
 * a line in the log. Writers take a lock, read what is there, merge, write beside and rename; so readers need no lock
 * and see a whole file, and of two writers both are heard. */
#ifndef PARTITION_COST_STORE_H
#define PARTITION_COST_STORE_H
#include "partition/cost/cost_key.h"

/* One measurement. */
typedef struct cost_record {
    cost_key key;
    double ns;        /* of one run: of an offer, or of a variant of a kernel (cost_key.h) */
    float spread;     /* half of the samples lie within ns * (1 +- spread) */
    uint32_t samples; /* runs timed, of all merged measurements */
    int64_t when;     /* seconds since 1970 of the last one; the least recent go first when the file is full */
    char what[24];    /* "Conv", for people who look into the file */
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

/* Reads folder/measured.bin; a file that is missing or no good leaves *out empty. Only out of memory fails. */
INLAY_NODISCARD inlay_status cost_store_load(const char *folder, const cost_log *log, cost_store *out);
void cost_store_deinit(cost_store *store);
/* NULL: not measured. */
const cost_record *cost_store_find(const cost_store *store, cost_key key);

/* Adds measurements to folder/measured.bin. A figure that is there is replaced only when the new one differs by more
 * than the noise of the two (at least 5 %); otherwise it gains the samples, so that plans do not flicker. fresh is
 * sorted here. */
INLAY_NODISCARD inlay_status cost_store_merge(const char *folder, cost_record *fresh, uint32_t count,
                                              const cost_log *log, inlay_diag *diag);
/* The same for what was read, and for no file; fresh is sorted (cost_key_order). */
INLAY_NODISCARD inlay_status cost_store_add(cost_store *store, const cost_record *fresh, uint32_t count);
/* The rule by which one record takes in another of the same key; for tests. */
void cost_record_absorb(cost_record *old, const cost_record *fresh);

/* ------------------------------------------------------------------ measurements that no file has yet */

typedef struct cost_list {
    cost_record *records; /* [count] in any order; owned, to be freed */
    uint32_t count;
} cost_list;

/* Adds one, last. False: no memory. */
bool cost_list_add(cost_list *list, const cost_record *record);
/* The first of that key; NULL: none. */
cost_record *cost_list_find(const cost_list *list, cost_key key);
/* Sorts them. Those of equal keys become one: their mean, with a spread of how far apart they are where that is more
 * than each varied. */
void cost_list_merge(cost_list *list);

/* ------------------------------------------------------------------ files of the cost folder */

/* Writes all of data to folder/name: beside it, then rename. *diag names the file. */
INLAY_NODISCARD inlay_status cost_file_write(const char *folder, const char *name, const void *data, size_t bytes,
                                             inlay_diag *diag);
/* The whole of folder/name, ended by a NUL, to be freed; *out_data is NULL when there is no such file, or it is none to
 * be read (no plain file, of another user, writable for others, above max_bytes), which is logged. */
INLAY_NODISCARD inlay_status cost_file_read(const char *folder, const char *name, size_t max_bytes, const cost_log *log,
                                            char **out_data, size_t *out_bytes);
#endif
