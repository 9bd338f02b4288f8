/* lock/lock.h - the results of a model in a file, and what another version of inlay changes about them.
 *
 * A record is a JSON object, whose members are listed in sdk/docs/pages/upgrading.md. `inlay lock` writes one, and
 * `inlay lock --check` makes a second one with the same model, inputs and settings and compares the two. */
#ifndef LOCK_LOCK_H
#define LOCK_LOCK_H
#include "tables/table.h"
#include "data/samples.h"
#include "inlay/inlay.h"
#include <jansson.h>
#include <pthread.h>
#include <stdbool.h>

/* How much a check tolerates. */
typedef struct lock_limits {
    double error;  /* largest difference of an element / largest magnitude of its output in the same sample */
    double time;   /* ratio to the recorded time */
    double memory; /* ratio to the recorded memory */
} lock_limits;

/* Reads the record at path; INLAY_IO_ERROR: not readable, not a record, or one with members that this version does not
 * know. The caller releases it. */
INLAY_NODISCARD inlay_status lock_load(const char *path, json_t **out_record, inlay_diag *diag);
INLAY_NODISCARD inlay_status lock_save(const char *path, const json_t *record, inlay_diag *diag);
/* Writes JSON as a text of lines. */
INLAY_NODISCARD inlay_status lock_write_json(const char *path, const json_t *json, inlay_diag *diag);
/* Paths in a record are relative to its folder. Both write to out, of PATH_MAX bytes; false: the path does not fit, or
 * does not exist. lock_path_in() makes the path relative, lock_path_from() relative to the working directory again. */
bool lock_path_in(const char *record, const char *path, char *out);
bool lock_path_from(const char *record, const char *path, char *out);
/* Does an option name a place of this machine, or how plugins are loaded there? Neither changes a result. */
bool lock_is_local(const char *name);
/* The settings that differ from the defaults, as an array of "NAME=VALUE"; settings that name places of this machine,
 * such as paths, are left out. NULL: no memory. */
json_t *lock_settings(const inlay_options *options);
/* Applies recorded settings; those that files, the environment or flags have set stay as they are. */
INLAY_NODISCARD inlay_status lock_apply_settings(const json_t *settings, inlay_options *options, inlay_diag *diag);

/* The SHA-256 of a file, which a thread computes meanwhile. {0} is none. */
typedef struct file_hash {
    const char *path; /* borrowed */
    pthread_t thread;
    bool is_running;
    char sha256[65];
    inlay_status status;
    inlay_diag diag;
} file_hash;
void file_hash_begin(file_hash *hash, const char *path);
/* Waits for the thread, if it still runs. INLAY_IO_ERROR: the file cannot be read. */
INLAY_NODISCARD inlay_status file_hash_end(file_hash *hash, inlay_diag *diag);

/* {"sha256", "inlay", "cpu"}: the model file, the version, and the processor. */
INLAY_NODISCARD inlay_status lock_origin(file_hash *model, json_t **out, inlay_diag *diag);

/* Regions with their nodes and kernels, the versions of the providers, and the memory of the plan: members "providers",
 * "regions" and "memory" of the record. *out_explanation is the JSON of `inlay explain`, for lock_compare(). The
 * context has run. The caller releases *out_explanation, also after a failure. */
INLAY_NODISCARD inlay_status lock_placement(const inlay_session *session, const inlay_context *context, json_t *record,
                                            json_t **out_explanation, inlay_diag *diag);

/* Runs all samples. Members "inputs" (a SHA-256 for each sample) and "outputs" (name, type, metric, for each sample a
 * SHA-256 and, if `was` is NULL, the values) of the record. Outputs whose bits differ from those of the record `was`
 * get the member "error". */
INLAY_NODISCARD inlay_status lock_outputs(const inlay_session *session, inlay_context *context,
                                          const struct samples *samples, const json_t *was, json_t *record,
                                          inlay_diag *diag);

/* One round of a time measurement: the shortest time of a run on the first sample, relative to the shortest time of a
 * fixed loop of arithmetic, measured alternately for about a third of a second. */
INLAY_NODISCARD inlay_status lock_time_round(const struct samples *samples, inlay_session *session,
                                             inlay_context *context, double *out_ratio, inlay_diag *diag);

/* The rule about times.
 *
 * A round is a process of its own. Other programs make rounds slower, never faster, and most of them on a busy machine,
 * so the fastest rounds are compared: the LOCK_FAST-th, because a single one may be fast by chance. A record has
 * LOCK_ROUNDS ratios. A check measures at least LOCK_LEAST_ROUNDS, and then up to LOCK_ROUNDS as long as LOCK_FAST of
 * them are not at or below limit * that of the record. */
enum { LOCK_ROUNDS = 45, LOCK_LEAST_ROUNDS = 9, LOCK_FAST = 3 };
/* The ratios of a record and of a check, as arrays of numbers. The LOCK_FAST-th smallest; 0: there are fewer. */
double lock_fast_round(const json_t *ratios);
bool lock_is_slower(const json_t *was, const json_t *is, double limit); /* before LOCK_ROUNDS: it may be */
bool lock_is_faster(const json_t *was, const json_t *is, double limit);

/* Whether an output is within the limit; error is the member "error" of lock_outputs(), dtype its element type. */
bool lock_error_holds(const json_t *error, const char *dtype, double limit);

/* What differs between two records, as rows of what, was, is and verdict: "same" (only if `all`), "changed", "better"
 * or "regression". strict: each change of results, placement, kernels or warnings is a regression. */
typedef struct lock_report {
    struct table table; /* the caller writes or releases it */
    uint32_t changes, regressions;
    bool all, strict;
    bool timed; /* both records have times */
} lock_report;
/* explanation: of the second record; see lock_placement(). */
void lock_compare(const json_t *was, const json_t *is, const json_t *explanation, lock_limits limits,
                  lock_report *report);

/* Another version of inlay, or another runtime. */
typedef struct lock_other {
    const char *program;    /* folder with bin/inlay, or "command:COMMAND" */
    const json_t *settings; /* as lock_settings() makes them; only for bin/inlay */
    double limit;           /* see lock_limits.error */
    bool (*stop)(void);     /* ends the program; may be NULL */
} lock_other;
/* Runs the first sample here and on the other version, with all values that leave a region as outputs, and finds the
 * first region of this version, in execution order, with an output whose error exceeds the limit. *out: {"value",
 * "relative", "region" (its number), "provider", "nodes" ("Conv '/conv1'"), "before" (largest error of the values
 * before), "values" (their number)}; without "value" if there is none. The caller releases it. INLAY_IO_ERROR,
 * INLAY_INVALID_ARGUMENT: the other version cannot run, or has failed. */
INLAY_NODISCARD inlay_status lock_against(const lock_other *other, const char *model, const inlay_options *options,
                                          const struct samples *samples, json_t **out, inlay_diag *diag);
#endif
