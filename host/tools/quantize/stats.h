/* quantize/stats.h - stores the results of a search in a file, so that an interrupted search can be resumed.
 *
 * The file is JSON. It belongs to one model, one set of samples and one metric; a file of another combination is
 * rejected. */
#ifndef QUANTIZE_STATS_H
#define QUANTIZE_STATS_H
#include "quantize/calibrate.h"

struct stats;

/* Reads the file at path, which need not exist yet. path NULL: *out is NULL, and all functions below are no-ops on it.
 * INLAY_INVALID_ARGUMENT: not such a file, or of another model, samples or metric. */
INLAY_NODISCARD inlay_status stats_open(const char *path, const char *model, const struct samples *set,
                                        agree_metric metric, struct stats **out, inlay_diag *diag);
void stats_close(struct stats *stats); /* NULL is a no-op */

/* Writes new results atomically; without `now` at most once a second. */
INLAY_NODISCARD inlay_status stats_save(struct stats *stats, bool now, inlay_diag *diag);

/* The verdict on the candidate with that digest. False: unknown. */
bool stats_verdict(const struct stats *stats, uint64_t digest, struct verdict *out);
void stats_add_verdict(struct stats *stats, uint64_t digest, const struct verdict *verdict);

/* Nanoseconds that layers gain with integers, [count] in the order of names. False: unknown for at least one. */
bool stats_gains(const struct stats *stats, const char *const *names, uint32_t count, double *out);
void stats_add_gain(struct stats *stats, const char *name, double ns);

/* The ranges of exactly these values; memory is the arena of *out. False: unknown. */
bool stats_ranges(const struct stats *stats, const calibrate_value *values, uint32_t count, struct calibration *out);
void stats_add_ranges(struct stats *stats, const struct calibration *calibration);
#endif
