#include "cli/watchdog_report.h"
#include "watchdog/watchdog.h"
#include <math.h>
#include <stdio.h>

void watchdog_report_print(inlay_session *session)
{
    inlay_watchdog_info info = { .struct_size = sizeof info };

    if (watchdog_of(session) == NULL || inlay_session_watchdog(session, 1, &info) != INLAY_OK)
        return;
    (void)printf("watchdog: %llu executions checked in %.1f ms of CPU time, %llu wrong, %llu dropped, %llu without a "
                 "bound\n",
                 (unsigned long long)info.checked, (double)info.cpu_ns * 1e-6, (unsigned long long)info.wrong,
                 (unsigned long long)info.dropped, (unsigned long long)info.skipped);
}

static json_t *finding_json(const inlay_watchdog_finding *finding)
{
    json_t *json = json_pack("{s:s, s:s, s:s, s:s, s:I, s:s, s:f, s:s, s:s}", "provider", finding->provider, "kernel",
                             finding->kernel, "op", finding->op_type, "node", finding->node, "nodes",
                             (json_int_t)finding->node_count, "output", finding->output, "bound", finding->bound,
                             "text", finding->text, "model", finding->model_path);

    if (json != NULL) /* JSON has no infinity */
        (void)json_object_set_new(json, "error", isfinite(finding->error) ? json_real(finding->error) : json_null());
    return json;
}

json_t *watchdog_report_json(inlay_session *session)
{
    inlay_watchdog_info info = { .struct_size = sizeof info };
    inlay_watchdog_finding finding = { .struct_size = sizeof finding };
    json_t *findings;

    if (watchdog_of(session) == NULL || inlay_session_watchdog(session, 1, &info) != INLAY_OK)
        return NULL;
    findings = json_array();
    for (uint32_t i = 0; inlay_session_watchdog_finding(session, i, &finding) == INLAY_OK; i++)
        (void)json_array_append_new(findings, finding_json(&finding));
    return json_pack("{s:I, s:I, s:I, s:I, s:f, s:o}", "checked", (json_int_t)info.checked, "wrong",
                     (json_int_t)info.wrong, "dropped", (json_int_t)info.dropped, "skipped", (json_int_t)info.skipped,
                     "cpu_ms", (double)info.cpu_ns * 1e-6, "findings", findings);
}
