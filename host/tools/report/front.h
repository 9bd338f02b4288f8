/* report/front.h - the page of `inlay quantize --front`: all variants by time and agreement, and their Pareto front. */
#ifndef REPORT_FRONT_H
#define REPORT_FRONT_H
#include "quantize/quantize.h"

/* Writes the page, a single file without references to others. */
INLAY_NODISCARD inlay_status front_write(const char *path, const char *model, const quantize_report *report,
                                         inlay_diag *diag);
#endif
