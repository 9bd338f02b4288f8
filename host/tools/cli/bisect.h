/* cli/bisect.h - the parts of `inlay bisect`: runs with modified settings, the comparison of two runs, and the search
 * for the node or region of a provider that causes a difference. */
#ifndef CLI_BISECT_H
#define CLI_BISECT_H
#include "cli/cli.h"
#include "data/feed.h"
#include "session/session.h"

typedef struct bisect_args {
    struct feed feed;
    const char *model;
    const char *against;
    double rtol, atol;
} bisect_args;

/* State that all steps of one search share. */
struct search {
    const cli_common *common;
    cli_common of_trials; /* as `common`, with the options of a trial; open sessions log with it */
    const bisect_args *args;
    uint32_t runs;   /* count so far */
    const char *tap; /* value to add as an output in the next runs, possibly with commas in its name; NULL: none */
};

/* An option to set in addition to the common options. For a list option it adds items, separated by commas. */
struct setting {
    const char *name;
    const char *value;
};

/* A session with the settings applied, and its context after one run. */
struct trial {
    inlay_session *session;
    inlay_context *context;
};

/* Creates the session and runs it once on the inputs of the command line. The caller must call trial_end() on *out,
 * also after a failure. */
INLAY_NODISCARD inlay_status trial_run(struct search *search, const struct setting *list, uint32_t count,
                                       struct trial *out, inlay_diag *diag);
void trial_end(struct trial *trial);
/* The options of the command line with the settings applied on top; the caller destroys them. If the settings choose
 * the providers, options of other providers and options about node placement are omitted. */
INLAY_NODISCARD inlay_status trial_options(const struct search *search, const struct setting *list, uint32_t count,
                                           inlay_options **out_options, inlay_diag *diag);

/* The first difference between two runs. */
struct difference {
    bool found;
    char output[200];
    char text[300];
};

/* Compares the outputs of `a` with the outputs of `b` that have the same name, starting at output `first` and wrapping
 * around. Stops at the first output whose value differs. */
INLAY_NODISCARD inlay_status trial_compare(const struct search *search, const struct trial *a, const struct trial *b,
                                           uint32_t first, struct difference *out, inlay_diag *diag);
/* Runs with the settings and compares the result with `good`. */
INLAY_NODISCARD inlay_status trial_differs(struct search *search, const struct setting *list, uint32_t count,
                                           const struct trial *good, struct difference *out, inlay_diag *diag);

/* Nodes of one provider that cause a difference: a single node, or several that cause it only together. */
struct place {
    bool found;
    bool one_region; /* all in one region of the provider */
    char provider[64];
    char graph[200]; /* "" = the main graph, otherwise partition_job.path */
    json_t *nodes;   /* [{"op", "name"}] in execution order; owned */
    struct difference difference;
};

/* Finds the first node, or region, that makes a run differ from `good` when the optimiser stops after `limit` rewrites
 * (negative: no limit). `base` lists the providers to compare against, separated by commas: the search runs a growing
 * part of the nodes on them and observes where the difference disappears. out->found is false, with INLAY_OK, when this
 * gives no answer: the model on `base` alone also differs from `good`, or the run with the original placement does not.
 * *out_base_differs distinguishes the two. Release with place_deinit(). */
INLAY_NODISCARD inlay_status place_find(struct search *search, const char *base, int64_t limit,
                                        const struct trial *good, struct place *out, bool *out_base_differs,
                                        inlay_diag *diag);
void place_deinit(struct place *place);
#endif
