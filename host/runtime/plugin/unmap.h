/* plugin/unmap.h - unmaps plugin files. */
#ifndef PLUGIN_UNMAP_H
#define PLUGIN_UNMAP_H

/* Unmaps a plugin file; handle is that of dlopen(). */
void unmap_file(void *handle);
#endif
