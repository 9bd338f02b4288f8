/* cli/watchdog_report.h - what option watchdog found, as text and JSON. */
#ifndef CLI_WATCHDOG_REPORT_H
#define CLI_WATCHDOG_REPORT_H
#include "inlay/inlay.h"
#include <jansson.h>

/* Both wait until the executions that were chosen so far are checked. Without option watchdog, the first prints nothing
 * and the second returns NULL. */
void watchdog_report_print(inlay_session *session);
json_t *watchdog_report_json(inlay_session *session);
#endif
