/* api/measure_api.c - inlay.h: measurements before models run: calibration and tuning. */
#include "measure/calibrate.h"
#include "measure/tune.h"

inlay_status inlay_calibrate(const inlay_options *options, const inlay_calibrate_options *what,
                             inlay_calibrate_result *out_result, inlay_diag *diag)
{
    return calibrate_machine(options, what, out_result, diag);
}

inlay_status inlay_tune(inlay_session *session, const inlay_tune_options *how, inlay_tune_result *out_result,
                        inlay_diag *diag)
{
    session_background_wait(session);
    return tune_session(session, how, out_result, diag);
}
