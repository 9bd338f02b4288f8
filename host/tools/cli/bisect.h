/* cli/bisect.h - the parts of `inlay bisect`: runs with other settings, what differs between two of them, and which
 * node or region of a provider it comes from. */
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

/* What all steps of a search share. */
struct search {
    const cli_common *common;
    const bisect_args *args;
    uint32_t runs; /* so far */
};

/* A setting on top of the common options. Of a list it is one more item. */
struct setting {
    const char *name;
    const char *value;
};

/* A session with the settings, and its context after one run. */
struct trial {
    inlay_session *session;
    inlay_context *context;
};

/* Makes the session and runs it once, on the inputs of the command line. End *out with trial_end(), also after a
 * failure. */
INLAY_NODISCARD inlay_status trial_run(struct search *search, const struct setting *list, uint32_t count,
                                       struct trial *out, inlay_diag *diag);
void trial_end(struct trial *trial);
/* The options of the command line with the settings on top; the caller destroys them. Where the settings name the
 * providers, options of others and those about who runs what are left out. */
INLAY_NODISCARD inlay_status trial_options(const struct search *search, const struct setting *list, uint32_t count,
                                           inlay_options **out_options, inlay_diag *diag);

/* What differs between two runs. */
struct difference {
    bool found;
    char output[200];
    char text[300];
};

/* The first output of a, from index `first` round to it again, that b has by the same name with another value. */
INLAY_NODISCARD inlay_status trial_compare(const struct search *search, const struct trial *a, const struct trial *b,
                                           uint32_t first, struct difference *out, inlay_diag *diag);
/* Runs with the settings and compares with `good`. */
INLAY_NODISCARD inlay_status trial_differs(struct search *search, const struct setting *list, uint32_t count,
                                           const struct trial *good, struct difference *out, inlay_diag *diag);

/* Nodes of one provider that make a difference: one, or several that do only together. */
struct place {
    bool found;
    bool one_region; /* all in one region of the provider */
    char provider[64];
    char graph[200]; /* "" = the main graph, otherwise as partition_job.path says */
    json_t *nodes;   /* [{"op", "name"}] in the order of the run; owned */
    struct difference what;
};

/* Looks for the first node, or region, that makes a run differ from `good` when the optimiser stops after `limit`
 * rewrites (negative: never). `base` are providers to hold the others against, comma-separated: nodes run there, all,
 * or from some node on, and what then differs lies before. io->found is false, with INLAY_OK, when that tells nothing:
 * the model on `base` alone differs from `good`, too, or a run with every node where it was does not. *out_base_differs
 * says which. Release with place_deinit(). */
INLAY_NODISCARD inlay_status place_find(struct search *search, const char *base, int64_t limit,
                                        const struct trial *good, struct place *out, bool *out_base_differs,
                                        inlay_diag *diag);
void place_deinit(struct place *place);
#endif
