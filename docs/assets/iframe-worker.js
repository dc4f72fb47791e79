// Search in pages opened from a disk, where browsers refuse workers: a hidden frame runs the worker's script.
// (Material's plug-in `offline` would load such a script from elsewhere; its name keeps it from doing so.)
if (location.protocol === "file:") {
  window.Worker = class extends EventTarget {
    constructor(address) {
      super();
      this.waiting = []; // messages that came before the script was there
      this.frame = document.createElement("iframe");
      this.frame.hidden = true;
      this.frame.onload = () => this.start(new URL(address, location.href).href);
      document.documentElement.append(this.frame);
    }

    start(address) {
      const inside = this.frame.contentWindow;
      inside.postMessage = (data) => this.dispatchEvent(new MessageEvent("message", { data }));
      const script = inside.document.createElement("script");
      script.src = address;
      script.onload = () => {
        const messages = this.waiting;
        this.waiting = null;
        messages.forEach((data) => this.postMessage(data));
      };
      inside.document.head.append(script);
    }

    postMessage(data) {
      if (this.waiting) this.waiting.push(data);
      else this.frame.contentWindow.dispatchEvent(new MessageEvent("message", { data }));
    }

    terminate() {
      this.frame.remove();
    }
  };
}
