/* timing/models.h - times of models, measured side by side. */
#ifndef TIMING_MODELS_H
#define TIMING_MODELS_H
#include "data/samples.h"
#include <stdbool.h>

enum { TIMING_MODELS = 2 };
typedef struct timed_model {
    inlay_session *session;
    inlay_context *context;
} timed_model;

/* The time of a run on the first sample in milliseconds, of one model or of two (TIMING_MODELS): of the first the lower
 * quartile; of the second that, multiplied by the median of the ratios of neighbouring runs. The time of other programs
 * on a busy machine is left out as far as the process's CPU time tells it. */
INLAY_NODISCARD inlay_status timing_models(const struct samples *set, const timed_model *models, uint32_t count,
                                           double budget_s, double *out_ms, inlay_diag *diag);

/* Two models' times, round by round. {0} is a beginning. */
enum { PACE_LEAST = 3, PACE_MOST = 5 };
struct pace {
    uint32_t rounds;
    double before_ms[PACE_MOST];
    double ratios[PACE_MOST]; /* of the other's times to these, the smallest first */
};

/* Adds a round; rounds beyond PACE_MOST are ignored. */
void pace_add(struct pace *pace, double before_ms, double after_ms);
/* Would more rounds change nothing? There are PACE_MOST, or PACE_LEAST that are all on one side of most. */
bool pace_is_settled(const struct pace *pace, double most);
/* Takes the other at most this share of the time, by the middle round? Where most is below 1, so that it is to be
 * faster, it was so in each round but one of PACE_MOST: what is gained is more than what rounds differ by. */
bool pace_holds(const struct pace *pace, double most);
/* Milliseconds of the first; the other's are these, multiplied by the ratio of the middle round. */
void pace_times(const struct pace *pace, double *out_before_ms, double *out_after_ms);
#endif
