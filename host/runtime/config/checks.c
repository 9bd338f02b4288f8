#include "config/checks.h"
#include "base/among.h"
#include "config/options.h"
#include <errno.h>
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

static inlay_status check_device_failure(const char *text, inlay_diag *diag)
{
    if (strcmp(text, "fail") == 0 || strcmp(text, "other") == 0)
        return INLAY_OK;
    return inlay_fail(diag, INLAY_INVALID_ARGUMENT, "option device_failure: '%.64s' is neither fail nor other", text);
}

static inlay_status check_policy(const char *text, inlay_diag *diag)
{
    if (strcmp(text, "cost") == 0 || strcmp(text, "priority") == 0)
        return INLAY_OK;
    return inlay_fail(diag, INLAY_INVALID_ARGUMENT, "option policy: '%s' is neither cost nor priority", text);
}

static inlay_status check_precision(const char *text, inlay_diag *diag)
{
    if (is_among(text, "strict f32 fast reduced"))
        return INLAY_OK;
    return inlay_fail(diag, INLAY_INVALID_ARGUMENT, "option precision: '%s' is not one of strict, f32, fast, reduced",
                      text);
}

static inlay_status check_isa(const char *text, inlay_diag *diag)
{
    if (is_among(text, "auto avx512 avx2 baseline"))
        return INLAY_OK;
    return inlay_fail(diag, INLAY_INVALID_ARGUMENT, "option isa: '%s' is not one of auto, avx512, avx2, baseline",
                      text);
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

    if (option_bytes(strrchr(text, '=') + 1, &bytes)) /* its kind guarantees the '=' */
        return INLAY_OK;
    return inlay_fail(diag, INLAY_INVALID_ARGUMENT,
                      "option memory_limit: '%s' is not NAME=BYTES (BYTES may end in K, M or G)", text);
}

static inlay_status check_probe(const char *text, inlay_diag *diag)
{
    if (strcmp(text, "auto") == 0 || strcmp(text, "always") == 0 || strcmp(text, "never") == 0)
        return INLAY_OK;
    return inlay_fail(diag, INLAY_INVALID_ARGUMENT, "option probe: '%s' is not one of auto, always, never", text);
}

inlay_status option_check(uint32_t option, const char *text, inlay_diag *diag)
{
    switch (option) {
    case OPTION_precision:
        return check_precision(text, diag);
    case OPTION_isa:
        return check_isa(text, diag);
    case OPTION_policy:
        return check_policy(text, diag);
    case OPTION_device_failure:
        return check_device_failure(text, diag);
    case OPTION_probe:
        return check_probe(text, diag);
    case OPTION_pin:
        return check_pin(text, diag);
    case OPTION_forbid:
        return check_forbid(text, diag);
    case OPTION_memory_limit:
        return check_memory_limit(text, diag);
    default:
        return INLAY_OK;
    }
}
