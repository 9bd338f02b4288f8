/* plan/program/late.h - offers that their provider takes back: compile or specialize answers INLAY_UNSUPPORTED.
 *
 * Such an offer is out of the question from then on, its nodes get a refusal that quotes the sentence, and the graph is
 * assigned again. What compile declines, it declines for the session: the program itself is assigned anew. What
 * specialize declines, it declines for the shapes at hand: the program keeps its assignment, and remembers for these
 * shapes another program of the same graph, made without the offers in question. Regions that are the same in both are
 * compiled once. */
#ifndef PLAN_LATE_H
#define PLAN_LATE_H
#include "plan/plan.h"

/* Shapes for which something was declined. */
struct late_shapes {
    late_shapes *next;
    plan key;      /* its key alone */
    uint8_t *late; /* [offer_count] */
    char *text;
    program *instead; /* NULL: not made yet, or nobody can */
    bool impossible;
    arena a;
};

/* Region `step` of p was declined with the sentence in why, whose node, when it is one of the region's, says which
 * offer; otherwise all of the region's are meant. Assigns p again; steps of regions that stay keep what was compiled,
 * the others are released. A failure is that of the assignment, and leaves p as it was. */
INLAY_NODISCARD inlay_status late_assign(program *p, uint32_t step, const inlay_diag *why, inlay_diag *diag);

/* The same for specialize: sets late[offer] (late is [p->parts.offer_count]) for what is meant. */
void late_mark(const program *p, uint32_t step, const inlay_diag *why, uint8_t *late);

inlay_status late_no_memory(const program *p, inlay_diag *diag);
/* Remembers that these offers are not to be had at these shapes. p->plan_lock is held. */
INLAY_NODISCARD inlay_status late_remember(program *p, const plan_input *inputs, uint32_t count, const uint8_t *late,
                                           const char *text, inlay_diag *diag);

/* The program that runs these shapes in place of p, made when it is first asked for; *out is NULL when p itself runs
 * them. INLAY_UNSUPPORTED: nobody else can; diag has the sentence of who declined. Thread-safe. */
INLAY_NODISCARD inlay_status late_instead(program *p, const plan_input *inputs, uint32_t count, program **out,
                                          inlay_diag *diag);

/* Frees what was remembered; the programs that stand in for p are gone. */
void late_forget(program *p);

/* ------------------------------------------------------------------ declined.c */

/* Copies what base has heard, without the offers that are late, and with refusals in their place. False: no memory. */
bool late_take_back(const partition *base, const uint8_t *late, const char *call, const char *text, arena *a,
                    partition *out);
/* Chooses for p's graph again from what was heard. */
INLAY_NODISCARD inlay_status late_choose(const program *p, const partition *heard, arena *a, partition *out,
                                         inlay_diag *diag);
/* Steps for the regions of parts; those that `from` has compiled already are taken over. NULL: no memory. */
program_step *late_take_over(const partition *parts, const program_step *from, uint32_t from_count, bool borrow,
                             arena *a);
#endif
