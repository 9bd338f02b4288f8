/* serve/base/log.h - lines on stderr, and the log settings of Triton's protocol. */
#ifndef SERVE_LOG_H
#define SERVE_LOG_H
#include "inlay/status.h"
#include <stdbool.h>

typedef enum log_level { LOG_ERROR_LINE, LOG_WARNING_LINE, LOG_INFO_LINE, LOG_VERBOSE_LINE } log_level;

/* Writes a line with the time in UTC and the level's letter if the level is enabled:
 * "2026-01-31T12:00:00.123Z I inlay-serve: ..."; with log_format "ISO8601" without milliseconds. Any thread. */
INLAY_PRINTF(2, 3) void log_line(log_level level, const char *format, ...);
/* Verbose lines are the library's messages. */
void log_set_verbose(bool on);

/* The type of a setting of the log. */
typedef enum log_kind { LOG_BOOL, LOG_NUMBER, LOG_TEXT } log_kind;
typedef struct log_setting {
    const char *key;
    log_kind kind;
    uint64_t number;  /* LOG_BOOL: 0 or 1 */
    const char *text; /* LOG_TEXT; "" = none */
} log_setting;
enum { LOG_SETTINGS = 6 };
void log_settings_read(log_setting out[LOG_SETTINGS]);
/* Applies all changes, or none if one is invalid. */
INLAY_NODISCARD inlay_status log_settings_change(const log_setting *changes, uint32_t count, inlay_diag *diag);
#endif
