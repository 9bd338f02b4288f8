/* serve/base/rollout.h - a new version of a model while another one is served: its rules, its statistics, and the
 * decision that follows from both.
 *
 * Some of the requests without a version run on both versions: with ROLLOUT_CANARY, the new one (the candidate) answers
 * them and the served one (the stable one) runs a copy; with ROLLOUT_SHADOW it is the other way round. The statistics
 * are plain numbers in the shared memory of board.h, guarded by its lock. No function here allocates or waits. */
#ifndef SERVE_ROLLOUT_H
#define SERVE_ROLLOUT_H
#include "shared/agree.h"

enum {
    ROLLOUT_OUTPUTS = 16,  /* outputs with separate sums; further ones share the last */
    ROLLOUT_BUCKETS = 256, /* of a histogram of times */
    ROLLOUT_NAME_BYTES = 64,
    ROLLOUT_REASON_BYTES = 320
};

typedef enum rollout_mode { ROLLOUT_OFF, ROLLOUT_CANARY, ROLLOUT_SHADOW } rollout_mode;
typedef enum rollout_state { ROLLOUT_RUNNING, ROLLOUT_PROMOTED, ROLLOUT_DROPPED, ROLLOUT_STATE_COUNT } rollout_state;

/* The settings rollout, rollout_percent ... of a model. */
typedef struct rollout_rules {
    rollout_mode mode;
    double percent;      /* of the requests without a version */
    double requests;     /* pairs that were compared before the candidate is promoted */
    agree_metric metric; /* AGREE_auto: the relative error */
    double bound;        /* the metric is at least this; the relative error and kl: at most */
    double median,
        tail; /* most ratio of the candidate's run times to the stable version's: 50th, 99th percentile; 0: any */
    double error_percent; /* most failures and unlike outputs, of the pairs */
} rollout_rules;

/* A histogram of times whose buckets are 9 % wide. */
typedef struct rollout_times {
    uint64_t count;
    uint64_t buckets[ROLLOUT_BUCKETS];
} rollout_times;

typedef struct rollout_figures {
    uint64_t compared; /* pairs of outputs */
    uint64_t unlike;   /* of these, pairs with another type, shape or text, or a number that is finite in one alone */
    uint64_t
        failed; /* requests that failed on the candidate alone; with ROLLOUT_CANARY the stable version answered, unless
                         the candidate was too slow */
    uint64_t dropped; /* copies that were not run to their end, because of other requests or for lack of memory */
    struct agree outputs[ROLLOUT_OUTPUTS];
    char names[ROLLOUT_OUTPUTS][ROLLOUT_NAME_BYTES]; /* of the outputs */
    rollout_times stable, candidate;                 /* of pairs of runs that had one request each */
    /* of a model package that ran in the last pair; "": it was none */
    char stable_variant[ROLLOUT_NAME_BYTES], candidate_variant[ROLLOUT_NAME_BYTES];
} rollout_figures;

/* The settings: X(name). */
#define ROLLOUT_SETTINGS(X)                                                                                            \
    X(rollout)                                                                                                         \
    X(rollout_percent)                                                                                                 \
    X(rollout_requests)                                                                                                \
    X(rollout_metric)                                                                                                  \
    X(rollout_bound)                                                                                                   \
    X(rollout_median_ratio)                                                                                            \
    X(rollout_tail_ratio)                                                                                              \
    X(rollout_error_percent)

/* Sets the rule of the setting `name` (rollout, rollout_percent ...). origin begins the message of a failure. */
INLAY_NODISCARD inlay_status rollout_set(rollout_rules *rules, const char *name, const char *value, const char *origin,
                                         inlay_diag *diag);
const char *rollout_mode_name(rollout_mode mode);
const char *rollout_state_name(rollout_state state);

void rollout_times_add(rollout_times *times, uint64_t ns);
/* The time in nanoseconds below which `share` (0 to 1) of the times are, to 9 %; 0: there are none. */
double rollout_times_at(const rollout_times *times, double share);

/* Prepares the sums of the outputs. */
void rollout_figures_init(rollout_figures *figures, const rollout_rules *rules);
/* How many of the first `n` requests are for the candidate: of each 100 / percent requests, the last one. */
uint64_t rollout_chosen(const rollout_rules *rules, uint64_t n);
/* The metric of one output over all pairs. */
double rollout_difference(const rollout_rules *rules, const struct agree *output);
/* The name of the metric. */
const char *rollout_metric_name(const rollout_rules *rules);
/* Decides as soon as the rules permit it: drops the candidate once it cannot be promoted any more. Writes one sentence
 * to reason [ROLLOUT_REASON_BYTES]. */
rollout_state rollout_decide(const rollout_rules *rules, const rollout_figures *figures, char *reason);
#endif
