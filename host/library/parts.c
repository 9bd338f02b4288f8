/* library/parts.c - the composition root: the only file that names what is above the runtime (base/parts.h).
 *
 * CMake compiles it once for each set of parts: PART_FORMATS, PART_ISOLATION, PART_INSIGHT, PART_TUNING
 * (needs files that are written, and PART_INSIGHT), PART_WATCHDOG. */
#include "base/parts.h"
#include <stddef.h>

#ifdef PART_FORMATS
#include "formats/formats.h"
#endif
#ifdef PART_ISOLATION
#include "remote/remote.h"
#endif
#ifdef PART_INSIGHT
#include "explain/explain.h"
#include "measure/calibrate.h"
#include "measure/runs.h"
#include "measure/tune.h"
#include "profile/profile.h"
#include "session/insight.h"

#ifdef PART_TUNING
#define IF_TUNING(function) function
#else
#define IF_TUNING(function) NULL
#endif

static const insight_part insight = { .explain = explain_session,
                                      .calibrate = IF_TUNING(calibrate_machine),
                                      .tune = IF_TUNING(tune_session),
                                      .time = timings_create,
                                      .record = IF_TUNING(record_runs),
                                      .predict = predict_run,
                                      .profile = profile_create,
                                      .profile_write = profile_write_observed,
                                      .profile_events = profile_events };
#endif
#ifdef PART_WATCHDOG
#include "watchdog/watchdog.h"

static const watchdog_part watchdog = { watchdog_attach, watchdog_get_info, watchdog_get_finding };
#endif

static const struct model_format *const formats[] = {
#ifdef PART_FORMATS
    &gguf_format,
#endif
    NULL,
};

const struct library_parts library_parts = {
    .formats = formats,
#ifdef PART_ISOLATION
    .open_isolated = remote_open,
#endif
#ifdef PART_INSIGHT
    .insight = &insight,
#endif
#ifdef PART_WATCHDOG
    .watchdog = &watchdog,
#endif
};
