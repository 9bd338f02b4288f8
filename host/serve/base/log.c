#include "serve/base/log.h"
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

static atomic_bool disabled[LOG_VERBOSE_LINE]; /* by level */
static atomic_uint verbose_level;
static atomic_bool iso8601;
static const char *const formats[] = { "default", "ISO8601" }; /* by iso8601 */

static bool log_is_enabled(log_level level)
{
    return level == LOG_VERBOSE_LINE ? atomic_load(&verbose_level) > 0 : !atomic_load(&disabled[level]);
}

void log_set_verbose(bool on)
{
    atomic_store(&verbose_level, on);
}

void log_line(log_level level, const char *format, ...)
{
    char text[2048], head[40] = "";
    va_list args;
    struct timespec now;
    struct tm parts;

    if (!log_is_enabled(level))
        return;
    va_start(args, format);
    (void)vsnprintf(text, sizeof text, format, args);
    va_end(args);
    if (clock_gettime(CLOCK_REALTIME, &now) == 0 && gmtime_r(&now.tv_sec, &parts) != NULL) {
        size_t used = strftime(head, sizeof head, "%Y-%m-%dT%H:%M:%S", &parts);

        if (!atomic_load(&iso8601))
            used += (size_t)snprintf(head + used, sizeof head - used, ".%03d", (int)(now.tv_nsec / 1000000));
        (void)snprintf(head + used, sizeof head - used, "Z %c ", "EWIV"[level]);
    }
    (void)fprintf(stderr, "%sinlay-serve: %s\n", head, text);
}

void log_settings_read(log_setting out[LOG_SETTINGS])
{
    out[0] = (log_setting){ "log_file", LOG_TEXT, 0, "" };
    out[1] = (log_setting){ "log_info", LOG_BOOL, log_is_enabled(LOG_INFO_LINE), "" };
    out[2] = (log_setting){ "log_warning", LOG_BOOL, log_is_enabled(LOG_WARNING_LINE), "" };
    out[3] = (log_setting){ "log_error", LOG_BOOL, log_is_enabled(LOG_ERROR_LINE), "" };
    out[4] = (log_setting){ "log_verbose_level", LOG_NUMBER, atomic_load(&verbose_level), "" };
    out[5] = (log_setting){ "log_format", LOG_TEXT, 0, formats[atomic_load(&iso8601)] };
}

static bool is_format(const char *text)
{
    return strcmp(text, formats[0]) == 0 || strcmp(text, formats[1]) == 0;
}

static inlay_status check(const log_setting *change, inlay_diag *diag)
{
    log_setting settings[LOG_SETTINGS];

    log_settings_read(settings);
    for (uint32_t i = 0; i < LOG_SETTINGS; i++) {
        if (strcmp(settings[i].key, change->key) != 0)
            continue;
        if (settings[i].kind != change->kind)
            return inlay_fail(diag, INLAY_INVALID_ARGUMENT, "%s must be a %s", change->key,
                              settings[i].kind == LOG_BOOL     ? "truth value"
                              : settings[i].kind == LOG_NUMBER ? "number"
                                                               : "text");
        if (change->kind == LOG_TEXT && strcmp(change->key, "log_format") == 0) {
            if (!is_format(change->text))
                return inlay_fail(diag, INLAY_INVALID_ARGUMENT, "log_format must be \"default\" or \"ISO8601\"");
        } else if (change->kind == LOG_TEXT && strcmp(settings[i].text, change->text) != 0)
            return inlay_fail(diag, INLAY_INVALID_ARGUMENT, "a request cannot change %s; it is \"%s\"", change->key,
                              settings[i].text);
        if (change->number > UINT32_MAX)
            return inlay_fail(diag, INLAY_INVALID_ARGUMENT, "%s must be at most 4294967295", change->key);
        return INLAY_OK;
    }
    return inlay_fail(diag, INLAY_INVALID_ARGUMENT, "unknown log setting '%.64s'", change->key);
}

inlay_status log_settings_change(const log_setting *changes, uint32_t count, inlay_diag *diag)
{
    static const struct {
        const char *key;
        log_level level;
    } levels[] = { { "log_info", LOG_INFO_LINE },
                   { "log_warning", LOG_WARNING_LINE },
                   { "log_error", LOG_ERROR_LINE } };
    inlay_status status = INLAY_OK;

    for (uint32_t i = 0; status == INLAY_OK && i < count; i++)
        status = check(&changes[i], diag);
    for (uint32_t i = 0; status == INLAY_OK && i < count; i++) {
        if (changes[i].kind == LOG_NUMBER)
            atomic_store(&verbose_level, (unsigned)changes[i].number);
        if (strcmp(changes[i].key, "log_format") == 0)
            atomic_store(&iso8601, strcmp(changes[i].text, formats[1]) == 0);
        for (size_t k = 0; k < sizeof levels / sizeof levels[0]; k++)
            if (strcmp(levels[k].key, changes[i].key) == 0)
                atomic_store(&disabled[levels[k].level], changes[i].number == 0);
    }
    return status;
}
