/* No crash is reported: plugin/crash.h. */
#include "plugin/crash.h"

void (*crash_on_enter)(const crash_scene *scene);

void crash_install(void)
{
}

void crash_thread(void)
{
}

void crash_add_module(const struct plugin_module *module, const void *within)
{
    (void)module, (void)within;
}

void crash_remove_module(const struct plugin_module *module)
{
    (void)module;
}

void (*crash_restart)(void);
