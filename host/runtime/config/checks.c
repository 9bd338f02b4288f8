#include "config/checks.h"
#include "base/among.h"
#include "config/options.h"
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

bool option_bytes(const char *text, uint64_t *out_bytes)
{
    static const struct {
        const char *suffix;
        unsigned shift;
    } units[] = { { "", 0 },   { "B", 0 },    { "K", 10 }, { "KiB", 10 },
                  { "M", 20 }, { "MiB", 20 }, { "G", 30 }, { "GiB", 30 } };
    unsigned long long number;
    char *end;

    if (text[0] < '0' || text[0] > '9')
        return false;
    errno = 0;
    number = strtoull(text, &end, 10);
    for (size_t i = 0; errno == 0 && i < sizeof units / sizeof units[0]; i++) {
        if (strcmp(end, units[i].suffix) != 0)
            continue;
        *out_bytes = (uint64_t)number << units[i].shift;
        return number > 0 && *out_bytes >> units[i].shift == number;
    }
    return false;
}

/* Reads decimal digits with an optional fraction and returns the text after them. The locale of the process may have a
 * decimal comma, so the digits are read here. */
static const char *read_decimal(const char *text, double *out_number)
{
    double number = 0, digit = 1;

    for (; *text >= '0' && *text <= '9'; text++)
        number = number * 10 + (*text - '0');
    if (*text == '.')
        for (text++; *text >= '0' && *text <= '9'; text++)
            number += (*text - '0') * (digit /= 10);
    *out_number = number;
    return text;
}

bool option_watts(const char *text, double *out_watts)
{
    return *read_decimal(text, out_watts) == '\0' && *out_watts > 0 && *out_watts <= 1e6;
}

bool option_share(const char *text, double *out_share)
{
    const bool empty = *text == '\0' || *text == '%';
    const char *end = read_decimal(text, out_share);

    if (*end == '%') {
        *out_share /= 100;
        end++;
    }
    return !empty && *end == '\0' && *out_share <= 1;
}

bool option_limit(const char *text, double *out_limit)
{
    const bool empty = *text == '\0' || *text == 'e';
    const char *end = read_decimal(text, out_limit);

    if (!empty && *end == 'e' && end[1] == '-' && end[2] >= '0' && end[2] <= '9') {
        char *last;
        const long power = strtol(end + 2, &last, 10);

        end = last;
        *out_limit *= pow(10, -(double)power);
    }
    return !empty && *end == '\0' && *out_limit <= 1;
}

/* Names of nodes may contain '=', names of providers do not. */
static bool has_two_sides(const char *text)
{
    const char *equals = strrchr(text, '=');

    return equals != NULL && equals != text && equals[1] != '\0';
}

static inlay_status check_pin(const char *text, inlay_diag *diag)
{
    if (has_two_sides(text))
        return INLAY_OK;
    return inlay_fail(diag, INLAY_INVALID_ARGUMENT, "option pin: '%s' is not PATTERN=PROVIDER", text);
}

static inlay_status check_forbid(const char *text, inlay_diag *diag)
{
    if (strchr(text, '=') == NULL || has_two_sides(text))
        return INLAY_OK;
    return inlay_fail(diag, INLAY_INVALID_ARGUMENT, "option forbid: '%s' is not PATTERN=PROVIDER or PROVIDER", text);
}

static inlay_status check_memory_limit(const char *text, inlay_diag *diag)
{
    uint64_t bytes;

    if (option_bytes(strrchr(text, '=') + 1, &bytes)) /* the option's kind guarantees the '=' */
        return INLAY_OK;
    return inlay_fail(diag, INLAY_INVALID_ARGUMENT,
                      "option memory_limit: '%s' is not NAME=BYTES (BYTES may end in K, M or G)", text);
}

static inlay_status check_model_limits(const char *text, inlay_diag *diag)
{
    static const struct {
        const char *name;
        uint64_t most;
    } limits[] = {
#define LIMIT(name, preset, most, what) { #name, most },
#include "base/model_limits.def"
    };
    static const char names[] =
#define LIMIT(name, preset, most, what) ", " #name
#include "base/model_limits.def"
        ;
    const char *equals = strrchr(text, '='); /* the option's kind guarantees it */
    uint64_t number;

    for (size_t i = 0; i < sizeof limits / sizeof limits[0]; i++) {
        if (strlen(limits[i].name) != (size_t)(equals - text) ||
            memcmp(limits[i].name, text, (size_t)(equals - text)) != 0)
            continue;
        if (option_bytes(equals + 1, &number) && number <= limits[i].most)
            return INLAY_OK;
        return inlay_fail(diag, INLAY_INVALID_ARGUMENT,
                          "option model_limits: '%s' has no number from 1 to %llu (which may end in K, M or G)", text,
                          (unsigned long long)limits[i].most);
    }
    return inlay_fail(diag, INLAY_INVALID_ARGUMENT, "option model_limits: '%s' is not NAME=NUMBER; the names are %s",
                      text, &names[2]);
}

static inlay_status check_isolate_memory(const char *text, inlay_diag *diag)
{
    uint64_t bytes;

    if (strcmp(text, "0") == 0 || option_bytes(text, &bytes))
        return INLAY_OK;
    return inlay_fail(diag, INLAY_INVALID_ARGUMENT,
                      "option isolate_memory: '%s' is not a number of BYTES (which may end in K, M or G)", text);
}

static inlay_status check_reduce(const char *text, inlay_diag *diag)
{
    if (has_two_sides(text) && is_choice(strrchr(text, '=') + 1, "int8|weights8"))
        return INLAY_OK;
    return inlay_fail(diag, INLAY_INVALID_ARGUMENT,
                      "option reduce: '%s' is not PATTERN=ARITHMETIC, with the arithmetic int8 or weights8", text);
}

static inlay_status check_max_error(const char *text, inlay_diag *diag)
{
    double limit;

    if (option_limit(text, &limit))
        return INLAY_OK;
    return inlay_fail(diag, INLAY_INVALID_ARGUMENT,
                      "option max_error: '%s' is not a number from 0 to 1 such as 0.01 or 1e-2", text);
}

static inlay_status check_power(const char *text, inlay_diag *diag)
{
    double watts;

    if (option_watts(strrchr(text, '=') + 1, &watts)) /* the option's kind guarantees the '=' */
        return INLAY_OK;
    return inlay_fail(diag, INLAY_INVALID_ARGUMENT,
                      "option power_watts: '%s' is not NAME=WATTS, a number above 0 such as 45 or 2.5", text);
}

static inlay_status check_watchdog(const char *text, inlay_diag *diag)
{
    double share;

    if (option_share(text, &share))
        return INLAY_OK;
    return inlay_fail(diag, INLAY_INVALID_ARGUMENT,
                      "option watchdog: '%s' is not a share from 0 to 1 such as 0.01, or a percentage such as 1%%",
                      text);
}

inlay_status option_check(uint32_t option, const char *text, inlay_diag *diag)
{
    switch (option) {
    case OPTION_pin:
        return check_pin(text, diag);
    case OPTION_forbid:
        return check_forbid(text, diag);
    case OPTION_memory_limit:
        return check_memory_limit(text, diag);
    case OPTION_model_limits:
        return check_model_limits(text, diag);
    case OPTION_isolate_memory:
        return check_isolate_memory(text, diag);
    case OPTION_power_watts:
        return check_power(text, diag);
    case OPTION_reduce:
        return check_reduce(text, diag);
    case OPTION_max_error:
        return check_max_error(text, diag);
    case OPTION_watchdog:
        return check_watchdog(text, diag);
    default:
        return INLAY_OK;
    }
}
