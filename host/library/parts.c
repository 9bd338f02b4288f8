/* library/parts.c - the composition root: the only file that names what is above the runtime (base/parts.h).
 *
 * CMake compiles it once for each set of parts: PART_FORMATS, PART_ISOLATION, PART_INSIGHT, PART_WATCHDOG. */
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

static const insight_part insight = { explain_session, calibrate_machine, tune_session,   timings_create,
                                      record_runs,     predict_run,       profile_create, profile_write_observed,
                                      profile_events };
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
