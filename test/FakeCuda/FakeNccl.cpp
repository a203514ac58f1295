// A stand-in for NCCL beside that for the driver, between processes of one machine: a message is a file in a folder
// that the unique id names, written whole and then renamed.
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <functional>
#include <map>
#include <string>
#include <unistd.h>
#include <vector>

namespace fs = std::filesystem;

namespace {

struct Comm {
  int rank, ranks;
  std::string folder;
  std::map<int, uint64_t> sent, received; // messages to and from each rank so far
};
struct Message {
  bool isSend;
  int peer;
  char *data;
  size_t bytes;
};

[[noreturn]] void misuse(const char *text) {
  fprintf(stderr, "fake NCCL: %s\n", text);
  _exit(99);
}

std::string fileOf(Comm *comm, int from, int to, uint64_t number) {
  return comm->folder + "/" + std::to_string(from) + "-" + std::to_string(to) + "-" + std::to_string(number);
}

void send(Comm *comm, int to, const char *data, size_t bytes) {
  std::string name = fileOf(comm, comm->rank, to, comm->sent[to]++), part = name + ".part";
  FILE *file = fopen(part.c_str(), "wb");
  if (!file || fwrite(data, 1, bytes, file) != bytes || fclose(file))
    misuse("a message cannot be written");
  fs::rename(part, name);
}

void receive(Comm *comm, int from, char *data, size_t bytes) {
  std::string name = fileOf(comm, from, comm->rank, comm->received[from]++);
  while (!fs::exists(name))
    usleep(100);
  if (fs::file_size(name) != bytes)
    misuse("a message of another length");
  FILE *file = fopen(name.c_str(), "rb");
  if (!file || fread(data, 1, bytes, file) != bytes)
    misuse("a message cannot be read");
  fclose(file);
  fs::remove(name);
}

int inGroup = 0;
std::vector<std::function<int()>> sends, receives; // of the group under way
void *groupStream = nullptr;

} // namespace

extern "C" {

int scrimp_fake_enqueue(void *stream, std::function<int()> *work);
char *scrimp_fake_host(unsigned long long address, size_t bytes);

struct UniqueId {
  char bytes[128];
};

int ncclGetVersion(int *version) { return *version = 22707, 0; }
int ncclGetUniqueId(UniqueId *id) {
  const char *folder = getenv("TMPDIR");
  snprintf(id->bytes, sizeof(id->bytes), "%s/nccl-XXXXXX", folder ? folder : "/tmp");
  return mkdtemp(id->bytes) ? 0 : 2;
}
int ncclCommInitRank(Comm **comm, int ranks, UniqueId id, int rank) {
  *comm = new Comm{rank, ranks, id.bytes, {}, {}};
  // All must have come before one goes.
  for (int other = 0; other < ranks; ++other)
    if (other != rank)
      send(*comm, other, "x", 1);
  char byte;
  for (int other = 0; other < ranks; ++other)
    if (other != rank)
      receive(*comm, other, &byte, 1);
  return 0;
}
int ncclCommDestroy(Comm *comm) {
  if (comm->rank == 0) {
    std::error_code ignored;
    fs::remove_all(comm->folder, ignored);
  }
  delete comm;
  return 0;
}
int ncclCommAbort(Comm *comm) { return ncclCommDestroy(comm); }
int ncclCommGetAsyncError(Comm *, int *state) { return *state = 0; }
const char *ncclGetErrorString(int) { return "unhandled system error"; }
const char *ncclGetLastError(Comm *) { return "none"; }
int ncclGroupStart() { return ++inGroup, 0; }
int ncclGroupEnd() {
  if (--inGroup)
    return 0;
  std::function<int()> work = [first = std::move(sends), then = std::move(receives)] {
    for (auto &each : first)
      each();
    for (auto &each : then)
      each();
    return 0;
  };
  sends.clear();
  receives.clear();
  return groupStream ? scrimp_fake_enqueue(groupStream, &work) : 0;
}
int ncclSend(unsigned long long data, size_t bytes, int type, int peer, Comm *comm, void *stream) {
  if (!inGroup || type != 0)
    misuse("a send outside of a group, or not of bytes");
  groupStream = stream;
  const char *host = scrimp_fake_host(data, bytes);
  sends.push_back([=] { return send(comm, peer, host, bytes), 0; });
  return 0;
}
int ncclRecv(unsigned long long data, size_t bytes, int type, int peer, Comm *comm, void *stream) {
  if (!inGroup || type != 0)
    misuse("a receive outside of a group, or not of bytes");
  groupStream = stream;
  char *host = scrimp_fake_host(data, bytes);
  receives.push_back([=] { return receive(comm, peer, host, bytes), 0; });
  return 0;
}
int ncclAllGather(unsigned long long source, unsigned long long target, size_t bytes, int, Comm *comm, void *stream) {
  const char *from = scrimp_fake_host(source, bytes);
  char *to = scrimp_fake_host(target, bytes * static_cast<size_t>(comm->ranks));
  std::function<int()> work = [=] {
    memmove(to + bytes * static_cast<size_t>(comm->rank), from, bytes);
    for (int other = 0; other < comm->ranks; ++other)
      if (other != comm->rank)
        send(comm, other, to + bytes * static_cast<size_t>(comm->rank), bytes);
    for (int other = 0; other < comm->ranks; ++other)
      if (other != comm->rank)
        receive(comm, other, to + bytes * static_cast<size_t>(other), bytes);
    return 0;
  };
  return scrimp_fake_enqueue(stream, &work);
}
int ncclBroadcast(unsigned long long source, unsigned long long target, size_t bytes, int, int root, Comm *comm,
                  void *stream) {
  const char *from = comm->rank == root ? scrimp_fake_host(source, bytes) : nullptr;
  char *to = scrimp_fake_host(target, bytes);
  std::function<int()> work = [=] {
    if (comm->rank != root)
      return receive(comm, root, to, bytes), 0;
    memmove(to, from, bytes);
    for (int other = 0; other < comm->ranks; ++other)
      if (other != root)
        send(comm, other, to, bytes);
    return 0;
  };
  return scrimp_fake_enqueue(stream, &work);
}

} // extern "C"
