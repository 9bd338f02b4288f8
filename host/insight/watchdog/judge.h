/* watchdog/judge.h - compares results of a piece with those of the provider `reference`.
 *
 * An element is right if its error is at most a tolerance by type (element_tolerance(); 0 for results that are exact,
 * one step for 8-bit numbers). Otherwise the piece is computed several times more with noise (piece.h), and the error
 * may be PIECE_MARGIN times the largest deviation that noise causes in that output. */
#ifndef WATCHDOG_JUDGE_H
#define WATCHDOG_JUDGE_H
#include "watchdog/piece.h"

struct verdict {
    bool wrong;
    uint32_t value; /* the output with the largest error in relation to its bound */
    int64_t at;     /* its element; -1: its shape is wrong */
    double want, got;
    double error, bound; /* of that element; error INFINITY: one of the two numbers is not finite */
    bool unsure;         /* not wrong: differs, but intermediate results may overflow */
    bool unsteady; /* not wrong: a second computation on the reference provider gave another result than the first */
};

/* Judges the results `got` [piece->output_count]. from: the values that the piece reads. INLAY_UNSUPPORTED: the piece
 * cannot be compared, diag has the reason. values: receives the values of the reference provider, which refer to those
 * of `from`. */
INLAY_NODISCARD inlay_status judge_piece(const piece_machine *reference, const struct piece *piece,
                                         const uint8_t *inexact, const piece_values *from, const inlay_tensor_view *got,
                                         piece_values *values, struct verdict *out, inlay_diag *diag);
#endif
