/* check/coverage.h - which operators of a provider were run, and which it knows but refused in every case.
 *
 * A provider states no list of operators: it knows an operator if it offers a case of it, or refuses one for another
 * reason than INLAY_REFUSE_OPERATOR. */
#ifndef CHECK_COVERAGE_H
#define CHECK_COVERAGE_H
#include "check/generate.h"
#include "check/harness.h"

enum { COVERAGE_REASONS = 5 };

struct coverage {
    uint32_t known, ran, compared; /* operators */
    uint32_t repeated;             /* further runs, which were compared with the first run of their case */
    uint32_t own;             /* operators of the plugin itself that ran; group `examples` compares their examples */
    uint32_t cases, declined; /* cases that ran; cases whose offer compile or specialize took back */
    char reasons[COVERAGE_REASONS][192]; /* "QLinearMatMul (input 3 must be a constant)" */
    uint32_t reason_count;
    /* the current operator */
    bool is_known;
    char reason[120];
};

void coverage_begin_source(struct coverage *coverage);
void coverage_note(struct coverage *coverage, const harness_answer *answer);
void coverage_end_source(struct coverage *coverage, const case_source *source, uint32_t cases, uint32_t compared,
                         uint32_t declined, uint32_t repeated);
/* Counts the operators whose first case is offered, for the plan of a slow compiler. */
void coverage_plan(struct check *check, const struct fixture *fixture, const loaded_provider *provider,
                   const inlay_operator *const *custom, uint32_t custom_count);
/* Writes the lines about the provider. */
void coverage_report(const struct coverage *coverage, struct check *check, const struct fixture *fixture,
                     const loaded_provider *provider);
#endif
