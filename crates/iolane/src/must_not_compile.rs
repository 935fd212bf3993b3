//! What the types of the library forbid. Each example has one error, which it names. Before it stands the same without that error, which compiles,
//! so that nothing else makes the example fail.

/// The memory of a request belongs to the kernel or the device until the completion.
///
/// ```
/// fn read(queue: &mut dyn iolane::Queue, mut buffer: iolane::Buffer) {
///     buffer.fill(0);
///     queue.submit(&mut [iolane::Request::read(1, 0, buffer)].into());
/// }
/// ```
///
/// ```compile_fail,E0382
/// fn read(queue: &mut dyn iolane::Queue, mut buffer: iolane::Buffer) {
///     queue.submit(&mut [iolane::Request::read(1, 0, buffer)].into());
///     buffer.fill(0);
/// }
/// ```
struct ABufferCannotBeUsedWhileItsRequestIsInFlight;

/// ```
/// fn once(queue: &mut dyn iolane::Queue, request: iolane::Request) {
///     queue.submit(&mut [request].into());
/// }
/// ```
///
/// ```compile_fail,E0382
/// fn twice(queue: &mut dyn iolane::Queue, request: iolane::Request) {
///     queue.submit(&mut [request].into());
///     queue.submit(&mut [request].into());
/// }
/// ```
struct ARequestCannotBeSubmittedTwice;

/// Two handles to the same bytes would let a program change what a device reads.
///
/// ```
/// fn pass_on(buffer: iolane::Buffer) -> [iolane::Buffer; 1] {
///     [buffer]
/// }
/// ```
///
/// ```compile_fail,E0277
/// fn copy(buffer: iolane::Buffer) -> [iolane::Buffer; 2] {
///     [Clone::clone(&buffer), buffer]
/// }
/// ```
struct ABufferCannotBeCopied;

/// Rings are used by one thread; `open_movable_queue` opens those that are not bound to theirs.
///
/// ```
/// fn send(queue: Box<dyn iolane::Queue + Send>) {
///     let used = move || queue.in_flight();
///     std::thread::spawn(used);
/// }
/// ```
///
/// ```compile_fail,E0277
/// fn send(queue: Box<dyn iolane::Queue>) {
///     let used = move || queue.in_flight();
///     std::thread::spawn(used);
/// }
/// ```
struct AQueueCannotChangeItsThread;

/// A target is opened for writing by the guard's permission, or by a call that says that there is none.
///
/// ```
/// let options = iolane::Target::options();
/// options.write(iolane::guard::WritePermit::request("null")?);
/// # Ok::<(), iolane::Error>(())
/// ```
///
/// ```compile_fail,E0277
/// let options = iolane::Target::options();
/// options.write(true);
/// ```
struct ATargetIsNotWritableByAFlag;

/// The library cannot know how long memory lives that somebody else owns.
///
/// ```
/// use std::ptr::NonNull;
/// /// # Safety
/// /// Nobody else uses these 4096 bytes while the pool exists.
/// unsafe fn own(bytes: NonNull<u8>) -> iolane::Result<iolane::Pool> {
///     // SAFETY: as the caller says.
///     unsafe { iolane::Pool::from_region(bytes, 4096, 4096, ()) }
/// }
/// ```
///
/// ```compile_fail,E0133
/// use std::ptr::NonNull;
/// fn own(bytes: NonNull<u8>) -> iolane::Result<iolane::Pool> {
///     iolane::Pool::from_region(bytes, 4096, 4096, ())
/// }
/// ```
struct MemoryOfOthersNeedsAnArgument;
