// Messages by MPI_Isend and MPI_Irecv.
#include "Mpi.h"
#include <cstdio>
#include <dlfcn.h>
#include <sys/ioctl.h>
#include <unistd.h>

namespace scrimp::runtime {

template <typename Function> static bool bind(void *library, const char *name, Function &function) {
  function = reinterpret_cast<Function>(dlsym(library, name));
  return function != nullptr;
}

/// The name of what the library lacks; null if all is there.
template <typename Abi> static const char *bindFunctions(void *library, Mpi<Abi> &mpi) {
  const char *missing = nullptr;
  auto need = [&](const char *name, auto &function) {
    if (!bind(library, name, function) && !missing)
      missing = name;
  };
  need("MPI_Init_thread", mpi.initThread);
  need("MPI_Comm_set_errhandler", mpi.setErrorHandler);
  need("MPI_Comm_rank", mpi.rank);
  need("MPI_Comm_size", mpi.size);
  need("MPI_Isend", mpi.send);
  need("MPI_Irecv", mpi.receive);
  need("MPI_Testall", mpi.testAll);
  need("MPI_Test", mpi.test);
  need("MPI_Get_count", mpi.count);
  need("MPI_Error_string", mpi.errorText);
  need("MPI_Abort", mpi.abort);
  need("MPI_Finalize", mpi.finalize);
  return missing;
}

/// MPICH's handles are numbers of its ABI, Open MPI's the addresses of its symbols.
static const char *bindHandles(void *, Mpi<MpichAbi> &mpi) {
  mpi.world = 0x44000000;
  mpi.byte = 0x4c00010d;
  mpi.returnErrors = 0x54000001;
  return nullptr;
}
static const char *bindHandles(void *library, Mpi<OpenMpiAbi> &mpi) {
  return !bind(library, "ompi_mpi_comm_world", mpi.world)             ? "ompi_mpi_comm_world"
         : !bind(library, "ompi_mpi_byte", mpi.byte)                  ? "ompi_mpi_byte"
         : !bind(library, "ompi_mpi_errors_return", mpi.returnErrors) ? "ompi_mpi_errors_return"
                                                                      : nullptr;
}

/// What starts us reads what we say from a pipe, and may not read on once it hears of an abort: waits until it has read
/// all, a second at most, and has had a moment to hand it on.
static void waitUntilRead(FILE *stream) {
  fflush(stream);
  int unread = 0;
  for (int i = 0; i < 100 && ioctl(fileno(stream), FIONREAD, &unread) == 0 && unread > 0; ++i)
    usleep(10'000);
  usleep(20'000);
}

namespace {

template <typename Abi> class MpiTransport final : public Transport {
public:
  using Handle = typename Abi::Handle;

  explicit MpiTransport(const Mpi<Abi> &mpi) : mpi(mpi) {}

  Status begin(const std::string &library, int expected) {
    int provided = 0;
    // Only the thread that runs the program talks to MPI.
    if (mpi.initThread(nullptr, nullptr, Mpi<Abi>::funneled, &provided))
      return Status::error("MPI_Init_thread of %s failed", library.c_str());
    mpi.setErrorHandler(mpi.world, mpi.returnErrors);
    mpi.rank(mpi.world, &me);
    mpi.size(mpi.world, &ranks);
    if (ranks != expected)
      return Status::error("%d processes were started together, but %s sees %d: it is not the library of what started "
                           "them; name the right one in SCRIMP_MPI=/path/to/libmpi.so (srun: give --mpi=pmix or pmi2)",
                           expected, library.c_str(), ranks);
    size_t most = 2 * static_cast<size_t>(ranks);
    requests.reserve(most);
    statuses.resize(most);
    posted.reserve(most);
    return Status::ok();
  }

  const char *name() const override { return "mpi"; }
  int rank() const override { return me; }
  int size() const override { return ranks; }

  scrimp::runtime::Status post(std::span<const Message> sends, std::span<const Message> receives) override {
    requests.clear();
    posted.assign(receives.begin(), receives.end());
    receiveCount = receives.size();
    posted.insert(posted.end(), sends.begin(), sends.end());
    for (size_t i = 0; i < posted.size(); ++i) {
      const Message &message = posted[i];
      Handle request{};
      int count = static_cast<int>(message.bytes);
      int code = i < receiveCount
                     ? mpi.receive(message.data, count, mpi.byte, message.peer, /*tag=*/0, mpi.world, &request)
                     : mpi.send(message.data, count, mpi.byte, message.peer, /*tag=*/0, mpi.world, &request);
      if (code)
        return failure(code, message.peer);
      requests.push_back(request);
    }
    return scrimp::runtime::Status::ok();
  }

  Result<bool> test() override {
    if (requests.empty())
      return true;
    int isDone = 0;
    int code = mpi.testAll(static_cast<int>(requests.size()), requests.data(), &isDone, statuses.data());
    if (code)
      return failure(code, -1);
    if (!isDone)
      return false;
    requests.clear();
    for (size_t i = 0; i < receiveCount; ++i) {
      int got = 0;
      mpi.count(&statuses[i], mpi.byte, &got);
      if (got != posted[i].bytes)
        return scrimp::runtime::Status::error("rank %d sends %d bytes where rank %d expects %lld", posted[i].peer, got,
                                              me, (long long)posted[i].bytes);
    }
    return true;
  }

  std::string pending() override {
    std::string waitsForMessage, waitsForReceiver;
    for (size_t i = 0; i < requests.size(); ++i) {
      int isDone = 0;
      // Finished requests become null ones, which are done.
      if (mpi.test(&requests[i], &isDone, &statuses[i]) || isDone)
        continue;
      std::string &text = i < receiveCount ? waitsForMessage : waitsForReceiver;
      text += format("%srank %d", text.empty() ? "" : ", ", posted[i].peer);
    }
    return waitsForMessage.empty() ? waitsForReceiver.empty() ? "another rank" : waitsForReceiver : waitsForMessage;
  }

  void abort(const std::string &) override {
    waitUntilRead(stderr);
    mpi.abort(mpi.world, 1);
    _exit(1);
  }

  void finish() override { mpi.finalize(); }

private:
  using Status = scrimp::runtime::Status;

  Status failure(int code, int peer) {
    char text[Abi::longestError + 1] = "";
    int length = 0;
    mpi.errorText(code, text, &length);
    return peer < 0 ? Status::error("MPI: %s", text) : Status::error("MPI, to or from rank %d: %s", peer, text);
  }

  Mpi<Abi> mpi;
  int me = 0, ranks = 1;
  std::vector<Message> posted; // receives first
  size_t receiveCount = 0;
  std::vector<Handle> requests; // of `posted`; empty: all are done
  std::vector<typename Abi::Status> statuses;
};

template <typename Abi> Result<std::unique_ptr<Transport>> start(void *library, const std::string &name, int ranks) {
  Mpi<Abi> mpi;
  const char *missing = bindFunctions(library, mpi);
  if (!missing)
    missing = bindHandles(library, mpi);
  if (missing)
    return Status::error("%s has no %s: it is no MPI library of MPICH's or Open MPI's kind", name.c_str(), missing);
  auto transport = std::make_unique<MpiTransport<Abi>>(mpi);
  if (Status status = transport->begin(name, ranks); status.failed())
    return status;
  return std::unique_ptr<Transport>(std::move(transport));
}

} // namespace

Result<std::unique_ptr<Transport>> startMpi(void *library, const std::string &name, int ranks) {
  bool isOpenMpi = dlsym(library, "ompi_mpi_comm_world");
  return isOpenMpi ? start<OpenMpiAbi>(library, name, ranks) : start<MpichAbi>(library, name, ranks);
}

} // namespace scrimp::runtime
