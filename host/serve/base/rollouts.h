/* serve/base/rollouts.h - the rollouts of all models, in the memory that the processes of a server share, so that they
 * split requests together, add up one set of statistics and come to one decision. A rollout is known by the model's
 * name and by `key`, the state of the candidate's files. */
#ifndef SERVE_ROLLOUTS_H
#define SERVE_ROLLOUTS_H
#include "serve/base/board.h"
#include "serve/base/rollout.h"

enum { BOARD_ROLLOUTS = 64 };

/* The last rollout of a model. */
typedef struct rollout_record {
    char name[BOARD_NAME_BYTES]; /* "" = free */
    uint64_t key;
    uint64_t stable, version; /* of the two models */
    rollout_rules rules;
    rollout_state state;
    char reason[ROLLOUT_REASON_BYTES];
    uint64_t requests; /* without a version, since the rollout began; set only in copies */
    rollout_figures figures;
} rollout_record;

/* Begins a rollout, or joins the one with the same name and key; a decided one is begun again only if `again`.
 * *out_index: of its record; *out_state: of the rollout. begun: name, key, versions, rules and names of outputs; if the
 * rollout is joined, its rules are set to those that it began with. INLAY_LIMIT_EXCEEDED: BOARD_ROLLOUTS models have
 * one. */
INLAY_NODISCARD inlay_status rollouts_begin(struct board *board, rollout_record *begun, bool again, uint32_t *out_index,
                                            rollout_state *out_state, inlay_diag *diag);
/* Copies the record of the model; false: there is none. */
bool rollouts_read(struct board *board, const char *name, rollout_record *out);
/* Copies all records to out [BOARD_ROLLOUTS]; returns their number. */
uint32_t rollouts_list(struct board *board, rollout_record *out);
/* Locks the board and returns the statistics of a running rollout, to be changed until board_unlock(); NULL: it has
 * ended, and nothing is locked. */
rollout_figures *rollouts_lock(struct board *board, uint32_t index, uint64_t key);
/* Decides a running rollout if its rules permit it. Returns its state, and its reason in reason [ROLLOUT_REASON_BYTES];
 * a rollout whose record another process has started again counts as running. */
rollout_state rollouts_decide(struct board *board, uint32_t index, uint64_t key, char *reason);
/* Ends the model's running rollout for that reason; key 0: whichever it is. false: there is none. */
bool rollouts_end(struct board *board, const char *name, uint64_t key, rollout_state state, const char *reason);
#endif
