/* timing/models.h - times of one or two models, measured alternately. */
#ifndef TIMING_MODELS_H
#define TIMING_MODELS_H
#include "data/samples.h"
#include <stdbool.h>

enum { TIMING_MODELS = 2 };
typedef struct timed_model {
    inlay_session *session;
    inlay_context *context;
} timed_model;

/* Measures the time of a run on the first sample in milliseconds, of one model or of two (TIMING_MODELS): for the
 * first, the lower quartile; for the second, that quartile multiplied by the median ratio of consecutive runs. The time
 * of other programs on a busy machine is excluded as far as the process's CPU time allows. */
INLAY_NODISCARD inlay_status timing_models(const struct samples *set, const timed_model *models, uint32_t count,
                                           double budget_s, double *out_ms, inlay_diag *diag);

/* Two models' times, round by round. Starts as {0}. */
enum { PACE_LEAST = 3, PACE_MOST = 5 };
struct pace {
    uint32_t rounds;
    double before_ms[PACE_MOST];
    double ratios[PACE_MOST]; /* times of the second model / before_ms, ascending */
};

/* Adds a round; rounds beyond PACE_MOST are ignored. */
void pace_add(struct pace *pace, double before_ms, double after_ms);
/* Whether more rounds cannot change the result: there are PACE_MOST rounds, or at least PACE_LEAST rounds whose ratios
 * are all on one side of `most`, or one round if `most` is INFINITY. */
bool pace_is_settled(const struct pace *pace, double most);
/* Whether the second model takes at most this share of the time, in the median round. If `most` is below 1, the second
 * model must also be faster in every round (in all but one of PACE_MOST rounds), so that the gain exceeds the
 * variation. */
bool pace_holds(const struct pace *pace, double most);
/* The median time of the first model, and this time multiplied by the median ratio. */
void pace_times(const struct pace *pace, double *out_before_ms, double *out_after_ms);
#endif
