// Loaded before a CUDA program (LD_PRELOAD), counts what it asks of the driver: memory, launches, and whether these come before the
// first replay of a step, for a record of one, or beside the replays. At its end it writes the numbers to the file SCRIMP_CALLS names.
//   cc -O2 -shared -fPIC gpu_calls.c -o gpu_calls.so
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static long long allocations, allocatedBytes, largestBytes; // of the device
static long long launchesBefore, launchesRecorded, launchesBeside, records, replays;
static int isRecording;

static void *(*realDlsym)(void *, const char *);
static int (*realAlloc)(unsigned long long *, size_t);
static int (*realLaunch)(void *, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, void *, void **,
                         void **);
static int (*realBegin)(void *, int);
static int (*realEnd)(void *, void **);
static int (*realReplay)(void *, void *);

static int countAlloc(unsigned long long *address, size_t bytes) {
  ++allocations;
  allocatedBytes += (long long)bytes;
  if ((long long)bytes > largestBytes)
    largestBytes = (long long)bytes;
  return realAlloc(address, bytes);
}

static int countLaunch(void *function, unsigned gridX, unsigned gridY, unsigned gridZ, unsigned blockX, unsigned blockY,
                       unsigned blockZ, unsigned shared, void *stream, void **parameters, void **extra) {
  ++*(isRecording ? &launchesRecorded : replays ? &launchesBeside : &launchesBefore);
  return realLaunch(function, gridX, gridY, gridZ, blockX, blockY, blockZ, shared, stream, parameters, extra);
}

static int countBegin(void *stream, int mode) {
  isRecording = 1;
  return realBegin(stream, mode);
}

static int countEnd(void *stream, void **graph) {
  isRecording = 0;
  ++records;
  return realEnd(stream, graph);
}

static int countReplay(void *record, void *stream) {
  ++replays;
  return realReplay(record, stream);
}

// The program finds each function by its name in the library that it has opened.
void *dlsym(void *handle, const char *name) {
  if (!realDlsym) // by a version that every C library for x86-64 has
    *(void **)&realDlsym = dlvsym(RTLD_NEXT, "dlsym", "GLIBC_2.2.5");
  void *found = realDlsym(handle, name);
  struct {
    const char *name;
    void *counting;
    void **real;
  } counted[] = {{"cuMemAlloc_v2", (void *)countAlloc, (void **)&realAlloc},
                 {"cuLaunchKernel", (void *)countLaunch, (void **)&realLaunch},
                 {"cuStreamBeginCapture_v2", (void *)countBegin, (void **)&realBegin},
                 {"cuStreamEndCapture", (void *)countEnd, (void **)&realEnd},
                 {"cuGraphLaunch", (void *)countReplay, (void **)&realReplay}};
  // The driver and its libraries look for names too; the program comes first, and what it found stays.
  for (size_t i = 0; found && i < sizeof(counted) / sizeof(*counted); ++i)
    if (!strcmp(name, counted[i].name) && !*counted[i].real) {
      *counted[i].real = found;
      return counted[i].counting;
    }
  return found;
}

__attribute__((destructor)) static void tell(void) {
  const char *path = getenv("SCRIMP_CALLS");
  FILE *file = path && realLaunch ? fopen(path, "w") : NULL;
  if (!file)
    return;
  fprintf(file,
          "{\"allocations\": %lld, \"allocated_bytes\": %lld, \"largest_bytes\": %lld, \"launches_before\": %lld, "
          "\"launches_recorded\": %lld, \"launches_beside\": %lld, \"records\": %lld, \"replays\": %lld}\n",
          allocations, allocatedBytes, largestBytes, launchesBefore, launchesRecorded, launchesBeside, records, replays);
  fclose(file);
}
