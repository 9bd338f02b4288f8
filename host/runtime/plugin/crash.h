/* plugin/crash.h - records which plugin code a thread runs, and reports it in a crash.
 *
 * Each thread has a record of the plugin call that it is in: the scene. Slow calls set and restore it as a whole. The
 * run loop sets it once a run and then stores one pointer per step, from which a signal handler derives the call, the
 * provider and the node. Where handlers are installed, a crash writes one line that names the plugin, the call and the
 * node, writes a mark, with which the plugin is not loaded for that model (plugin/verdict.h), and forwards the signal
 * to the previous handler. A core dump, a debugger or a sanitizer then sees the crash as if this handler did not exist.
 * A SIGBUS at a mapped file says nothing about the plugin that reads it: see base/mapped_file.h for files of models;
 * for other files the line is written, but no mark.
 *
 * A crash in this process cannot be undone: the plugin may have died holding locks or within malloc, so nothing here
 * jumps out of a signal handler. The probe (plugin/probe.h) finds most faults beforehand, in a process that may die.
 * The command line restarts itself (crash_restart), because it has no state to lose before its first output. */
#ifndef PLUGIN_CRASH_H
#define PLUGIN_CRASH_H
#include "threads/scene.h"
#include <stdbool.h>
#include <stddef.h>

/* Set in the probe: called before each call of a plugin. */
extern void (*crash_on_enter)(const crash_scene *scene);

/* Enters a call; returns the scene that crash_leave() restores. The texts must live until crash_leave(). */
static inline crash_scene crash_enter(const struct plugin_module *module, const char *call, const char *who,
                                      const char *node)
{
    crash_scene before = crash_here;

    crash_here = (crash_scene){ .module = module, .call = call, .provider = who, .node = node, .model = before.model };
    if (crash_on_enter != NULL)
        crash_on_enter(&crash_here);
    return before;
}
static inline void crash_leave(const crash_scene *before)
{
    crash_here = *before;
}

/* Installs handlers for SIGSEGV, SIGBUS, SIGFPE, SIGILL and SIGABRT; once per process, never removed. Also gives the
 * calling thread an alternate signal stack, so that a stack overflow can be reported. Other threads that run models
 * get theirs from crash_thread(). Any thread. */
void crash_install(void);
/* Gives the calling thread an alternate signal stack, if handlers are installed and it has none. Cheap otherwise. */
void crash_thread(void);

/* Called by the handler after a plugin crashed and its mark was written; may restart the program and not
 * return. Async-signal-safe. NULL = not set. */
extern void (*crash_restart)(void);

/* Register the address range of a module, to attribute crashes in threads that a plugin started itself. The caller
 * holds the lifecycle lock (plugin/module.h). */
void crash_add_module(const struct plugin_module *module, const void *within);
void crash_remove_module(const struct plugin_module *module);
#endif
