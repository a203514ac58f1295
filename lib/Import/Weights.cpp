// Finding the bytes of weights in safetensors files (huggingface.co/docs/safetensors), and reading pieces of them.
#include "scrimp/Import/Weights.h"

#include "scrimp/Support/Messages.h"
#include "scrimp/runtime/Json.h"
#include "scrimp/runtime/StateDict.h"

#include "mlir/IR/Builders.h"
#include "mlir/IR/Diagnostics.h"
#include "llvm/ADT/StringSwitch.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/JSON.h"
#include "llvm/Support/MemoryBuffer.h"
#include "llvm/Support/Path.h"

#include <fcntl.h>
#include <unistd.h>

using namespace mlir;
using namespace mlir::scrimp;

LogicalResult mlir::scrimp::readWeightBytes(const WeightSource &source, uint64_t offset, MutableArrayRef<char> buffer,
                                            Location loc) {
  if (offset > source.getLength() || source.getLength() - offset < buffer.size())
    return emitError(loc) << "asked for bytes " << offset << " to " << offset + buffer.size() << " of a weight of "
                          << source.getLength();
  if (!source.isExternal()) {
    llvm::copy(source.bytes.substr(offset, buffer.size()), buffer.begin());
    return success();
  }
  int file = ::open(source.path.c_str(), O_RDONLY | O_CLOEXEC);
  if (file < 0)
    return emitError(loc) << "'" << source.path << "' cannot be read: " << std::strerror(errno);
  size_t done = 0;
  while (done < buffer.size()) {
    ssize_t count = ::pread(file, buffer.data() + done, buffer.size() - done, source.offset + offset + done);
    if (count < 0 && errno == EINTR)
      continue;
    if (count <= 0) {
      ::close(file);
      return emitError(loc) << "'" << source.path << "' ends at byte " << source.offset + offset + done << ", expected "
                            << buffer.size() - done << " bytes more";
    }
    done += count;
  }
  ::close(file);
  return success();
}

StringRef mlir::scrimp::safetensorsName(Type type) {
  if (isa<FloatType>(type))
    return type.isF32() ? "F32" : type.isF64() ? "F64" : type.isF16() ? "F16" : "BF16";
  return type.isInteger(64) ? "I64" : type.isInteger(32) ? "I32" : type.isInteger(8) ? "I8" : "BOOL";
}

static Type safetensorsType(StringRef name, MLIRContext *context) {
  Builder b(context);
  for (Type type : std::initializer_list<Type>{b.getF32Type(), b.getF64Type(), b.getF16Type(), b.getBF16Type(),
                                               b.getI64Type(), b.getI32Type(), b.getI8Type(), b.getI1Type()})
    if (safetensorsName(type) == name)
      return type;
  return nullptr;
}

/// Bytes of an element of a type by its name; 0 where a checkpoint cannot hold it.
static uint64_t elementBytes(StringRef name) {
  return llvm::StringSwitch<uint64_t>(name)
      .Cases({"I8", "U8", "BOOL"}, 1)
      .Cases({"F16", "BF16", "I16", "U16"}, 2)
      .Cases({"F32", "I32", "U32"}, 4)
      .Cases({"F64", "I64"}, 8)
      .Default(0);
}

std::string mlir::scrimp::whyOutside(StringRef path, StringRef folder, bool followLinks) {
  namespace fs = llvm::sys::fs;
  SmallString<256> real, realFolder;
  if (followLinks || fs::real_path(path, real) || fs::real_path(folder, realFolder) ||
      StringRef(real).starts_with((realFolder == "/" ? Twine("/") : realFolder + "/").str()))
    return "";
  return ("is a link to '" + real + "', outside the model's folder '" + folder + "'; --follow-links allows it").str();
}

/// A key that some object of a JSON text has twice; empty without one.
static std::string repeatedKey(StringRef text) {
  std::string repeated;
  (void)::scrimp::runtime::parseJson(text.str(), repeated);
  return repeated;
}

/// Adds the tensors of one file; those of a type that no checkpoint can hold are left out.
static LogicalResult readHeader(StringRef path, MLIRContext *context, llvm::StringMap<WeightSource> &tensors) {
  auto error = [&]() { return emitError(UnknownLoc::get(context)) << "'" << path << "' "; };
  uint64_t size;
  if (std::string problem = whyNotReadable(path); !problem.empty())
    return error() << problem << (problem.starts_with("is") ? "; expected a safetensors file" : "");
  if (std::error_code code = llvm::sys::fs::file_size(path, size))
    return error() << "cannot be read: " << code.message();
  WeightSource file;
  file.path = path.str();
  file.length = size;
  unsigned char prefix[8];
  if (size < 8)
    return error() << "has " << size << " bytes; it is not a safetensors file, or is cut off";
  if (failed(readWeightBytes(file, 0, MutableArrayRef<char>(reinterpret_cast<char *>(prefix), 8),
                             UnknownLoc::get(context))))
    return failure();
  if (const char *what = ::scrimp::runtime::whyNoSafetensors(prefix, sizeof(prefix)))
    return error() << what;
  uint64_t length = 0;
  for (int i = 7; i >= 0; --i)
    length = length << 8 | prefix[i];
  if (length > size - 8 || length > (uint64_t(1) << 30))
    return error() << "announces a header of " << length << " bytes but has " << size
                   << "; it is not a safetensors file, or is cut off";
  std::string text(length, 0);
  if (failed(readWeightBytes(file, 8, MutableArrayRef<char>(text.data(), length), UnknownLoc::get(context))))
    return failure();
  llvm::Expected<llvm::json::Value> parsed = llvm::json::parse(text);
  const llvm::json::Object *header = parsed ? parsed->getAsObject() : nullptr;
  if (!header) {
    llvm::consumeError(parsed.takeError());
    return error() << "has a header that is not a JSON object; it is not a safetensors file, or is damaged";
  }
  if (std::string key = repeatedKey(text); !key.empty())
    return error() << "holds '" << key << "' twice; it is damaged, write it again";
  std::vector<std::pair<int64_t, int64_t>> places;
  for (const auto &[key, value] : *header) {
    if (key == "__metadata__")
      continue;
    const llvm::json::Object *entry = value.getAsObject();
    const llvm::json::Array *shape = entry ? entry->getArray("shape") : nullptr;
    const llvm::json::Array *offsets = entry ? entry->getArray("data_offsets") : nullptr;
    std::optional<StringRef> dtype = entry ? entry->getString("dtype") : std::nullopt;
    if (!shape || !offsets || !dtype || offsets->size() != 2)
      return error() << "describes the tensor '" << key.str() << "' without dtype, shape and data_offsets";
    WeightSource tensor;
    tensor.path = path.str();
    tensor.elementType = safetensorsType(*dtype, context);
    tensor.typeName = dtype->str();
    if (!elementBytes(*dtype))
      continue;
    uint64_t elements = 1;
    for (const llvm::json::Value &dim : *shape) {
      tensor.shape.push_back(dim.getAsInteger().value_or(-1));
      if (tensor.shape.back() < 0 || (tensor.shape.back() && elements > (uint64_t(1) << 42) / tensor.shape.back()))
        return error() << "gives the tensor '" << key.str() << "' an impossible shape";
      elements *= tensor.shape.back();
    }
    int64_t begin = (*offsets)[0].getAsInteger().value_or(-1), end = (*offsets)[1].getAsInteger().value_or(-1);
    uint64_t needed = elements * elementBytes(*dtype);
    if (begin < 0 || end < begin || static_cast<uint64_t>(end) > size - 8 - length ||
        static_cast<uint64_t>(end - begin) != needed)
      return error() << "places the tensor '" << key.str() << "' (" << needed << " bytes) at " << begin << " to " << end
                     << " of " << size - 8 - length << " bytes of data; it is cut off or damaged";
    places.emplace_back(begin, end);
    tensor.offset = 8 + length + begin;
    tensor.length = needed;
    tensors[key.str()] = std::move(tensor);
  }
  llvm::sort(places);
  for (size_t i = 1; i < places.size(); ++i)
    if (places[i].first < places[i - 1].second)
      return error() << "has tensors that overlap at byte " << places[i].first << " of the data; it is damaged";
  return success();
}

FailureOr<llvm::StringMap<WeightSource>> mlir::scrimp::openSafetensors(StringRef path, MLIRContext *context) {
  llvm::StringMap<WeightSource> tensors;
  if (!path.ends_with(".json")) {
    if (failed(readHeader(path, context, tensors)))
      return failure();
    return tensors;
  }
  auto error = [&]() { return emitError(UnknownLoc::get(context)) << "'" << path << "' "; };
  if (std::string problem = whyNotReadable(path); !problem.empty()) {
    error() << problem << (problem.starts_with("is") ? "; expected a model.safetensors.index.json" : "");
    return failure();
  }
  auto buffer = llvm::MemoryBuffer::getFile(path);
  if (!buffer) {
    error() << "cannot be read: " << buffer.getError().message();
    return failure();
  }
  llvm::Expected<llvm::json::Value> parsed = llvm::json::parse((*buffer)->getBuffer());
  const llvm::json::Object *index = parsed ? parsed->getAsObject() : nullptr;
  const llvm::json::Object *map = index ? index->getObject("weight_map") : nullptr;
  if (!map) {
    llvm::consumeError(parsed.takeError());
    error() << "has no weight_map; expected a model.safetensors.index.json";
    return failure();
  }
  if (std::string key = repeatedKey((*buffer)->getBuffer()); !key.empty()) {
    error() << "holds '" << key << "' twice; it is damaged, write it again";
    return failure();
  }
  llvm::StringMap<llvm::StringMap<WeightSource>> shards;
  for (const auto &[key, value] : *map) {
    StringRef shard = value.getAsString().value_or("");
    if (shard.empty() || shard.contains('/')) {
      error() << "places '" << key.str() << "' in '" << shard << "', which is not a file beside it";
      return failure();
    }
    if (!shards.count(shard)) {
      SmallString<256> shardPath(llvm::sys::path::parent_path(path));
      llvm::sys::path::append(shardPath, shard);
      if (failed(readHeader(shardPath, context, shards[shard])))
        return failure();
    }
    auto tensor = shards[shard].find(key.str());
    if (tensor == shards[shard].end()) {
      error() << "places '" << key.str() << "' in '" << shard << "', which does not hold it";
      return failure();
    }
    tensors[key.str()] = tensor->second;
  }
  return tensors;
}
