/* serve/sequence.h - requests that follow one another, as Triton has them: sequence_id, sequence_start, sequence_end.
 *
 * A model with states has room for max_sequences sequences. Each has a context of its own, which keeps the states from
 * one request to the next (inlay_context_keep_states); its requests run one after another, in the order of their
 * arrival. */
#ifndef SERVE_SEQUENCE_H
#define SERVE_SEQUENCE_H
#include "serve/model.h"

struct sequence {
    struct instance instance;   /* context NULL: never used so far */
    char id[SEQUENCE_ID_BYTES]; /* "" = free to be given to another */
    bool fresh;                 /* its states are another's, or none; until the first run */
    uint32_t users;             /* requests on their way */
    uint64_t used_ns;           /* when the last of them began or ended */

    /* Under the scheduler's lock. */
    bool busy;                /* one of its requests is queued with the model, or runs */
    struct job *first, *last; /* requests behind it, by next */
};

/* Room for sequences, if the model has states. */
INLAY_NODISCARD inlay_status sequences_create(struct model *model, inlay_diag *diag);
void sequences_destroy(struct model *model);
/* Gives the job the sequence that its request names; nothing where it names none. INLAY_BUSY: all are in use. */
INLAY_NODISCARD inlay_status sequence_join(struct job *job, inlay_diag *diag);
/* Whether the model has that sequence; whether it has one that was used within sequence_idle_ms. */
bool sequence_is_known(struct model *model, const char *id);
bool sequences_live(struct model *model);
/* The job is over, or never ran. */
void sequence_leave(struct job *job);
#endif
