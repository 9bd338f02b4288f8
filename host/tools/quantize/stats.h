/* quantize/stats.h - what a search has found so far, in a file: one that was stopped goes on from there.
 *
 * The file is JSON. It belongs to one model, one set of samples and one metric; of another it is refused. */
#ifndef QUANTIZE_STATS_H
#define QUANTIZE_STATS_H
#include "quantize/calibrate.h"

struct stats;

/* What there is at path, or nothing yet. path NULL: *out is NULL, and all below are no-ops of it.
 * INLAY_INVALID_ARGUMENT: the file is none of these, or of another model, other samples or another metric. */
INLAY_NODISCARD inlay_status stats_open(const char *path, const char *model, const struct samples *set,
                                        agree_metric metric, struct stats **out, inlay_diag *diag);
void stats_close(struct stats *stats); /* NULL is a no-op */

/* Writes what is new: atomically, and with `now` also when it did so less than a second ago. */
INLAY_NODISCARD inlay_status stats_save(struct stats *stats, bool now, inlay_diag *diag);

/* What was found for a candidate of that digest. False: nothing. */
bool stats_verdict(const struct stats *stats, uint64_t digest, struct verdict *out);
void stats_add_verdict(struct stats *stats, uint64_t digest, const struct verdict *verdict);

/* What layers gain with integers, [count] in the order of names. False: it is not known of all. */
bool stats_gains(const struct stats *stats, const char *const *names, uint32_t count, double *out);
void stats_add_gain(struct stats *stats, const char *name, double ns);

/* The ranges of exactly these values; memory is out's. False: they are not known. */
bool stats_ranges(const struct stats *stats, const calibrate_value *values, uint32_t count, struct calibration *out);
void stats_add_ranges(struct stats *stats, const struct calibration *calibration);
#endif
