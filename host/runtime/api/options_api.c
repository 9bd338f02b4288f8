/* api/options_api.c - inlay.h: options. */
#include "config/load.h"
#include "config/options.h"

inlay_status inlay_options_create(inlay_options **out_options, inlay_diag *diag)
{
    return options_create(out_options, diag);
}

inlay_status inlay_options_copy(const inlay_options *options, inlay_options **out_copy, inlay_diag *diag)
{
    return options_copy(options, out_copy, diag);
}

void inlay_options_destroy(inlay_options *options)
{
    options_destroy(options);
}

inlay_status inlay_options_set_from(inlay_options *options, const char *name, const char *value, const char *origin,
                                    inlay_diag *diag)
{
    return options_set_from(options, name, value, origin, diag);
}

inlay_status inlay_options_set(inlay_options *options, const char *name, const char *value, inlay_diag *diag)
{
    return options_set(options, name, value, diag);
}

inlay_status inlay_options_set_int(inlay_options *options, const char *name, int64_t value, inlay_diag *diag)
{
    return options_set_int(options, name, value, diag);
}

inlay_status inlay_options_get(const inlay_options *options, const char *name, char *text, size_t bytes,
                               size_t *out_bytes, inlay_diag *diag)
{
    return options_get(options, name, text, bytes, out_bytes, diag);
}

inlay_status inlay_options_describe(uint32_t index, inlay_option_doc *out_doc)
{
    return options_describe(index, out_doc);
}

inlay_status inlay_options_setting(const inlay_options *options, uint32_t index, inlay_setting *out_setting)
{
    return options_setting(options, index, out_setting);
}

void inlay_options_set_log(inlay_options *options, inlay_log_fn log, void *user)
{
    options_set_log(options, log, user);
}

void inlay_options_set_progress(inlay_options *options, inlay_progress_fn progress, void *user)
{
    options_set_progress(options, progress, user);
}

inlay_status inlay_options_set_allocator(inlay_options *options, const inlay_allocator *allocator, inlay_diag *diag)
{
    return options_set_allocator(options, allocator, diag);
}

inlay_status inlay_options_set_file(inlay_options *options, const char *location, const void *data, uint64_t bytes,
                                    inlay_diag *diag)
{
    return options_set_file(options, location, data, bytes, diag);
}

inlay_status inlay_options_load(inlay_options *options, const char *path, inlay_diag *diag)
{
    return options_load(options, path, diag);
}

inlay_status inlay_options_load_environment(inlay_options *options, inlay_diag *diag)
{
    return options_load_environment(options, diag);
}

inlay_status inlay_options_standard_file(uint32_t index, char *text, size_t bytes)
{
    return options_standard_file(index, text, bytes);
}
