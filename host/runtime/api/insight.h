/* api/insight.h - the part host/insight, for the functions of inlay.h. */
#ifndef API_INSIGHT_H
#define API_INSIGHT_H
#include "session/insight.h"

/* NULL: the build leaves the part out, and diag says that it lacks this function. */
const insight_part *api_insight(const char *function, inlay_diag *diag);
/* The same for functions that need what insight_part.tune needs. */
const insight_part *api_tuning(const char *function, inlay_diag *diag);
#endif
