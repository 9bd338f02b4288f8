/* Settings of a provider: text -> typed values, checked against the provider's schema. */
#include "base/among.h"
#include "base/c_locale.h"
#include "base/nearest.h"
#include "inlay/check.h"
#include "inlay/plugin.h"
#include "plugin/plugin.h"
#include <ctype.h>
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

static const char *option_name(const void *ctx, uint32_t i)
{
    return ((const inlay_option *)ctx)[i].name;
}

/* '-' and '_' are equal, as on command lines. */
static bool same_name(const char *a, const char *b)
{
    while (*a != '\0' && (*a == '-' ? '_' : *a) == (*b == '-' ? '_' : *b)) {
        a++;
        b++;
    }
    return *a == '\0' && *b == '\0';
}

static bool parse_bool(const char *text, int64_t *out)
{
    static const char *const spellings[] = { "0", "1", "false", "true", "no", "yes", "off", "on" };

    for (uint32_t i = 0; i < sizeof spellings / sizeof spellings[0]; i++) {
        if (strcmp(text, spellings[i]) == 0) {
            *out = i & 1;
            return true;
        }
    }
    return false;
}

static bool parsed_fully(const char *text, const char *end)
{
    return *text != '\0' && end != text && *end == '\0' && !isspace((unsigned char)*text);
}

static inlay_status parse_int(const char *who, const inlay_option *option, const char *text, int64_t *out,
                              inlay_diag *diag)
{
    char *end;
    long long value;

    errno = 0;
    value = strtoll(text, &end, 0);
    if (!parsed_fully(text, end) || errno == ERANGE)
        return inlay_fail(diag, INLAY_INVALID_ARGUMENT, "%s.%s: '%s' is not an integer", who, option->name, text);
    if ((option->min != 0 || option->max != 0) && (value < option->min || value > option->max))
        return inlay_fail(diag, INLAY_INVALID_ARGUMENT, "%s.%s: %lld is outside [%lld, %lld]", who, option->name, value,
                          (long long)option->min, (long long)option->max);
    *out = value;
    return INLAY_OK;
}

static inlay_status parse_value(const char *who, const inlay_option *option, const char *text,
                                inlay_option_value *value, inlay_diag *diag)
{
    char *end;

    switch (option->kind) {
    case INLAY_OPTION_BOOL:
        if (!parse_bool(text, &value->i))
            return inlay_fail(diag, INLAY_INVALID_ARGUMENT, "%s.%s: '%s' is neither true nor false", who, option->name,
                              text);
        return INLAY_OK;
    case INLAY_OPTION_INT:
        return parse_int(who, option, text, &value->i, diag);
    case INLAY_OPTION_FLOAT:
        value->f = c_locale_number(text, &end);
        if (!parsed_fully(text, end) || isnan(value->f))
            return inlay_fail(diag, INLAY_INVALID_ARGUMENT, "%s.%s: '%s' is not a number", who, option->name, text);
        return INLAY_OK;
    case INLAY_OPTION_ENUM:
        if (!is_choice(text, option->choices))
            return inlay_fail(diag, INLAY_INVALID_ARGUMENT, "%s.%s: '%s' is not one of %s", who, option->name, text,
                              option->choices);
        value->s = text;
        return INLAY_OK;
    default:
        value->s = text;
        return INLAY_OK;
    }
}

inlay_status provider_parse_options(const char *provider_name, const inlay_option *options, uint32_t count,
                                    const provider_setting *settings, uint32_t setting_count,
                                    inlay_option_value *values, inlay_diag *diag)
{
    for (uint32_t i = 0; i < count; i++) {
        inlay_status status = INLAY_OK;

        INLAY_CHECK(options[i].name != NULL); /* adopt_options() refuses options without a name */
        values[i] = (inlay_option_value){ .name = options[i].name, .kind = options[i].kind };
        if (options[i].default_value != NULL)
            status = parse_value(provider_name, &options[i], options[i].default_value, &values[i], diag);
        if (status != INLAY_OK)
            return status;
    }
    for (uint32_t setting = 0; setting < setting_count; setting++) {
        inlay_status status;
        uint32_t i = 0;

        while (i < count && !same_name(settings[setting].name, options[i].name))
            i++;
        if (i == count) {
            const char *nearest = nearest_name(settings[setting].name, option_name, options, count);

            return inlay_fail(diag, INLAY_INVALID_ARGUMENT, "provider %s has no option '%s'%s%s%s", provider_name,
                              settings[setting].name,
                              nearest != NULL ? "; did you mean '"
                              : count == 0    ? "; it has no options"
                                              : "",
                              nearest != NULL ? nearest : "", nearest != NULL ? "'?" : "");
        }
        status = parse_value(provider_name, &options[i], settings[setting].value, &values[i], diag);
        if (status != INLAY_OK)
            return status;
        values[i].is_set = 1;
    }
    return INLAY_OK;
}
