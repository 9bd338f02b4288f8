/* The log: messages to the function of a logger, or to standard error. */
#include "ort.h"
#include <stdio.h>
#include <time.h>

void ort_log(const OrtLogger *logger, OrtLoggingLevel level, const char *text)
{
    struct timespec now;
    struct tm parts;
    char when[32];

    if (level < logger->level)
        return;
    if (logger->fn != NULL) {
        logger->fn(logger->param, level, "inlay", logger->id, "inlay", text);
        return;
    }
    (void)clock_gettime(CLOCK_REALTIME, &now);
    if (localtime_r(&now.tv_sec, &parts) == NULL || strftime(when, sizeof when, "%Y-%m-%d %H:%M:%S", &parts) == 0)
        when[0] = '\0';
    (void)fprintf(stderr, "%s.%09ld [%c:inlay:%s] %s\n", when, now.tv_nsec, "VIWEF"[level < 0 || level > 4 ? 4 : level],
                  logger -> id, text);
}

OrtStatus *ort_Logger_LogMessage(const OrtLogger *logger, OrtLoggingLevel log_severity_level, const char *message,
                                 const char *file_path, int line_number, const char *func_name)
{
    char text[2048];

    ORT_NEED(logger);
    ORT_NEED(message);
    (void)snprintf(text, sizeof text, "%s:%d %s] %s", file_path != NULL ? file_path : "", line_number,
                   func_name != NULL ? func_name : "", message);
    ort_log(logger, log_severity_level, text);
    return NULL;
}

ORT_GETTER(ort_Logger_GetLoggingSeverityLevel, const OrtLogger *, logger, OrtLoggingLevel, out, logger->level)
