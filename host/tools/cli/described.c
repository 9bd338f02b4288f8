#include "cli/described.h"
#include "base/isa.h"
#include "cli/inputs.h"
#include "config/options.h"
#include "quantize/evaluate.h"
#include "session/session.h"
#include "simd/cpu.h"

enum { RANDOM_SAMPLES = 8 };

inlay_status described_session(cli_common *common, const char *path, inlay_session **out_session, inlay_diag *diag)
{
    const session_watch watch = { .newest_opset = -1 };
    const session_source source = { .path = path, .fd = -1 };
    cli_common own = *common;
    inlay_session *session = NULL;
    inlay_status status;

    *out_session = NULL;
    cli_attach(common);
    INLAY_TRY(evaluate_options(common->options, "level", "0", &own.options, diag));
    cli_attach(&own);
    INLAY_TRY(session_prepare(&source, own.options, &watch, &session, diag));
    session->log.write = NULL; /* the lifetime of `own` ends here */
    session->progress.report = NULL;
    INLAY_TRY(session_describe(session, diag));
    *out_session = session;
    session = NULL;
done:
    inlay_session_destroy(session);
    if (own.options != common->options)
        inlay_options_destroy(own.options);
    return status;
}

inlay_status described_open(cli_common *common, const char *model, const char *data, uint32_t samples,
                            inlay_session **out_session, struct dataset **out_set, inlay_diag *diag)
{
    inlay_status status;

    INLAY_TRY(isa_cap(options_text(common->options, OPTION_isa), diag));
    INLAY_TRY(cpu_limit_isa(options_text(common->options, OPTION_isa), diag)); /* for the quantizer's kernels */
    INLAY_TRY(data != NULL ? described_session(common, model, out_session, diag)
                           : cli_open(common, model, out_session, diag)); /* random inputs need a trial run */
    status = dataset_open(data,
                          samples > 0    ? samples
                          : data == NULL ? RANDOM_SAMPLES
                                         : 0,
                          cli_samples_caller(common), *out_session, out_set, diag);
done:
    return status;
}
