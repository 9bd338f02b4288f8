/* quantize/judge.h - two models side by side: do they agree, and which one is faster? */
#ifndef QUANTIZE_JUDGE_H
#define QUANTIZE_JUDGE_H
#include "base/memory.h"
#include "quantize/agree.h"
#include "data/samples.h"
#include "timing/models.h"

/* Outputs of a model for each sample, copied: what is compared with runs once, not once for each candidate. */
typedef struct kept_outputs kept_outputs;

/* A session that keeps nothing in the cache folder, and a context. {0} is none. */
struct subject {
    inlay_session *session;
    inlay_context *context;
    kept_outputs *kept; /* NULL: outputs are not kept */
};

/* The given options without what is kept and without progress; with two more settings where name is not NULL. The
 * caller destroys them. */
INLAY_NODISCARD inlay_status judge_options(const inlay_options *given, const char *name, const char *value,
                                           inlay_options **out_options, inlay_diag *diag);
/* The same without the options of these names, a list that ends with NULL. */
INLAY_NODISCARD inlay_status judge_options_without(const inlay_options *given, const char *const *names,
                                                   inlay_options **out_options, inlay_diag *diag);
INLAY_NODISCARD inlay_status subject_open(const char *path, const inlay_options *options, struct subject *out,
                                          inlay_diag *diag);
void subject_close(struct subject *subject); /* {0} is a no-op */
/* What runs have read of the model's file leaves memory until it is read again: rows of tables above all, of which each
 * sample reads others. */
void subject_trim(const struct subject *subject);
/* Session and context go, and their memory with them; what is kept of outputs stays. */
void subject_unload(struct subject *subject);
/* Opens them again; one that is open stays as it is. */
INLAY_NODISCARD inlay_status subject_wake(struct subject *subject, const char *path, const inlay_options *options,
                                          inlay_diag *diag);
/* From now on judge_agreement() keeps what the subject makes of each sample of the set, in a file of the folder without
 * a name, as long as that is no more than 4 GiB in all. What is kept already stays. */
INLAY_NODISCARD inlay_status subject_keep(struct subject *subject, const struct samples *set, const char *dir,
                                          inlay_diag *diag);

/* How well the outputs agree. */
struct verdict {
    agree_metric metric; /* of the output below */
    agree_score score;   /* of the output that agrees least */
    char output[128];
    double error; /* agree_off() of the output that is off most */
    uint32_t samples;
};

/* Is the agreement at least goal (of kl: at most)? With sure, where the score is the share of texts that agree, it is
 * to be at least that of texts that were not seen: with 90 % of confidence by those that agree (where there are too few
 * samples to tell, all of them must), and by how far all of them are off (AGREE_TEXT_DIFFERS). */
bool verdict_holds(const struct verdict *verdict, double goal, bool sure);
/* "with WHAT, output 'y' agrees to 0.97 (text, 95 %: 0.91 to 0.99) only", of the arena; NULL: no memory. */
const char *verdict_only(const struct verdict *verdict, const char *what, struct arena *arena);

/* Runs both on the samples, at most `most` of them (0: all), and compares each output; metric may be auto. A run that
 * is cancelled is INLAY_CANCELLED. */
INLAY_NODISCARD inlay_status judge_agreement(const struct samples *set, uint32_t most, agree_metric metric,
                                             const struct subject *want, const struct subject *got, struct verdict *out,
                                             inlay_diag *diag);
/* The same on `count` samples: those of the list, or the first ones where which is NULL. off, [count] or NULL, is how
 * far the outputs of each are off. */
INLAY_NODISCARD inlay_status judge_some(const struct samples *set, const uint32_t *which, uint32_t count,
                                        agree_metric metric, const struct subject *want, const struct subject *got,
                                        struct verdict *out, double *off, inlay_diag *diag);
/* text, where the only output is rows of probabilities as a CTC decoder reads them: of samples that are given, the
 * blank symbol 0 is the most probable one of many rows, but not of all. Otherwise auto. */
INLAY_NODISCARD inlay_status judge_metric(const struct samples *set, const struct subject *subject, agree_metric *out,
                                          inlay_diag *diag);
/* The times of a run of both on the first sample, in milliseconds: see timing_models(). */
INLAY_NODISCARD inlay_status judge_time(const struct samples *set, const struct subject *a, const struct subject *b,
                                        double budget_s, double *out_a_ms, double *out_b_ms, inlay_diag *diag);
/* The time of a run on the first sample in milliseconds, of a session that is made for it and gone afterwards: its
 * lower quartile. No other session has the caches or the memory that it finds, as when a user runs the model. */
INLAY_NODISCARD inlay_status judge_alone(const struct samples *set, const char *path, const inlay_options *options,
                                         double budget_s, double *out_ms, inlay_diag *diag);
/* A tensor of host memory as a view; false: it is none. */
bool judge_view(const inlay_value *value, inlay_tensor_view *out);
#endif
