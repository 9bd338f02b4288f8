/* serve/model/sequence.h - sequences of requests, as in Triton: sequence_id, sequence_start, sequence_end.
 *
 * A model with states has up to max_sequences sequences. Each has a separate context, which keeps the states between
 * requests (inlay_context_keep_states); its requests run sequentially, in the order of their arrival. */
#ifndef SERVE_SEQUENCE_H
#define SERVE_SEQUENCE_H
#include "serve/model/model.h"

struct sequence {
    struct instance instance;   /* context NULL: never used so far */
    char id[SEQUENCE_ID_BYTES]; /* "" = free */
    bool fresh;                 /* the states are unset or another sequence's, until the first run */
    uint32_t users;             /* requests in progress */
    uint64_t used_ns;           /* time when the last of them began or ended */

    /* Guarded by the scheduler's lock. */
    bool busy;                /* one of its requests is queued with the model, or runs */
    struct job *first, *last; /* waiting requests, linked by next */
};

/* Allocates the sequences, if the model has states. */
INLAY_NODISCARD inlay_status sequences_create(struct model *model, inlay_diag *diag);
void sequences_destroy(struct model *model);
/* Sets the job's sequence if its request names one. INLAY_BUSY: all sequences are in use. */
INLAY_NODISCARD inlay_status sequence_join(struct job *job, inlay_diag *diag);
/* Whether the model has that sequence; whether any sequence was used within sequence_idle_ms, or
 * texts are in progress. */
bool sequence_is_known(struct model *model, const char *id);
bool sequences_live(struct model *model);
/* The sum of their instances' buffer_bytes. */
uint64_t sequences_buffer_bytes(struct model *model);
/* The job has ended, or never ran. */
void sequence_leave(struct job *job);
#endif
